"""Engines that share a home ask each other about the runs that they drive.

messages    what they say to each other
answering   other engines that ask, in the loop's thread
asking      another engine, in the thread of whoever wants to know
following   what happens to a run that another engine drives
"""
