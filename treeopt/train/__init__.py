"""Training the heads."""
