"""The version of onceflow. Packaging reads it here, and each run records which one created it."""

VERSION = "0.1.0.dev0"
