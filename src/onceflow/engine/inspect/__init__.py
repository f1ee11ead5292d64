"""What can be known about runs. Nothing here changes anything.

listing     which run is meant, which ones there are, and how they stand
reading     what the journal has of a run that is not driven here
describing  the tasks of a run, for people
fibers      where fibers stand, and what they wait for
deploying   what would become of them in other code
reasons     why a task does not run, in words
why         what a run as a whole, or one task of it, waits for
overviews   how a run gets on, at a glance
past        what measurements tell: attempts, tasks, how long a run will go on
statistics  what this engine has done
changes     what has become of a run's code
names       whether the code on disk has what stored names stand for
"""
