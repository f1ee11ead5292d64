"""Values: how what users pass and return becomes bytes, is compared, and comes back."""
