"""owlfi beside what people would use instead, on the same data sets: `make compare`."""
