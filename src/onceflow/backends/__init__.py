"""Backends: where attempts run. A backend is given plain jobs and reports what became of them."""
