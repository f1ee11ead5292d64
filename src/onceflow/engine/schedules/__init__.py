"""Schedules: runs that begin by the clock, each exactly once, whichever engine begins it.

- `rules`: times: cron expressions, intervals, a single moment. Pure.
- `firing`: the decision for now: fire, skip, wait, or nothing. Pure.
- `definitions`: schedules in the journal
- `targets`: the workflow of a schedule, and its arguments
- `declaration`: converts a user's options to a definition
- `clock`: fires what is due
- `management`: creating, pausing, triggering, backfilling

A firing is one transaction. It creates the run, under a name made of the schedule and the instant, and moves the
schedule on from the version that was read; so of several engines that want to fire the same instant one succeeds, and
the others are refused and look again. All that has to be remembered stands in the journal.
"""
