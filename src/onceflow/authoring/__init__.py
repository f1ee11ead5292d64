"""Authoring: what users write. Builds graphs; knows no engine."""
