"""Mean embeddings of measures: closed forms, or quadrature to twelve digits."""
