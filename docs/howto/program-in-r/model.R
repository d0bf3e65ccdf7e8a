# One line of input for each run: two parameters, then three standard normal numbers u.
rows <- as.matrix(read.csv(file("stdin"), header = FALSE))
for (i in seq_len(nrow(rows))) {
  theta <- rows[i, 1:2]
  u <- rows[i, 3:5]
  waits <- qgamma(pnorm(u), shape = theta[2], scale = theta[1])  # in place of rgamma(3, ...)
  cat(cumsum(waits), "\n")
}
