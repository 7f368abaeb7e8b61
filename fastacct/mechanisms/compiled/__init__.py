"""Users' own mechanisms, compiled."""
