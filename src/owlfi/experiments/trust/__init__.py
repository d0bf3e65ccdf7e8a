"""Whether what methods print is true: their intervals and warnings on problems nobody chose."""
