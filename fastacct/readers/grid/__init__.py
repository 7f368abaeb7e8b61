"""Losses on a grid, composed by FFT with every error bounded."""
