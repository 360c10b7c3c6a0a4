# The root mean square residual of logistic growth, of lines "hours count".
{
  expected = capacity / (1 + (capacity / start - 1) * exp(-rate * $1))
  residual = $2 - expected
  if (residual < 0) residual = -residual
  if (residual > worst) worst = residual
  sum += residual ^ 2
}
END {
  print "worst residual: " worst
  print sqrt(sum / NR)
}
