"""The `onceflow` command."""
