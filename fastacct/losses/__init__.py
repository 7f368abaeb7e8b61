"""Privacy losses as data: atoms, densities in panels, Gaussian mixtures, and their divergences."""
