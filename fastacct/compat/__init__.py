"""Other libraries' objects, converted by value; each module needs its library only when it makes one of its objects."""
