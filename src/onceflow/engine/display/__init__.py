"""How runs get on, for people who look again and again.

views       what there is to see at a moment
wording     that in words
drawing     that as a live display
displaying  shown to whoever waits for runs
"""
