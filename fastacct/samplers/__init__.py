"""What a random batch does to a privacy loss."""
