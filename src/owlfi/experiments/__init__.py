"""What the library shows: one file for each demonstration, table or figure."""
