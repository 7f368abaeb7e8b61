"""What every room needs: checked inputs, bounds, relations, rounding, searches, threads and kernels."""
