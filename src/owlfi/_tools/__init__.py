"""Tools that every room uses: checks of arguments, keys, special functions, long work."""
