"""Older theorems as their sources state them, to compare with; for numbers to use take the verbs (`fa.epsilon`)."""
