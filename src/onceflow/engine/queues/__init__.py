"""Queues: which tasks and runs may go on at the same time, and how fast, counted over all engines of a journal.

What it is made of:

    limits      what a queue allows
    standing    who has a place in it, as the journal has it; who may have the next one
    waiting     who waits here, and in which order
    gate        the queues as one engine sees them
    doorman     the tasks and runs of an engine, and their places
    managing    looking at queues, and changing them
    api         the same for the default engine
"""
