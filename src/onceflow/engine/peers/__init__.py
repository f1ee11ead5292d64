"""Engines that share a home ask each other about the runs that they drive.

- `messages`: the messages between engines
- `server`: answers other engines, in the loop's thread
- `client`: asks another engine, in the caller's thread
- `follow`: follows a run that another engine drives
"""
