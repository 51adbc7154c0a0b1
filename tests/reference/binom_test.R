# Clopper-Pearson intervals by R's binom.test, for tests/reference/test_bounds.py:
#   Rscript tests/reference/binom_test.R > tests/reference/binom_test.csv
cat(sprintf("# %s, stats::binom.test\n", R.version.string))
cat("events,n,alpha,lower,upper\n")
for (n in c(1, 2, 5, 10, 21, 100, 299, 1000, 20000)) {
  for (k in unique(round(c(0, 1, 0.01, 0.1, 0.3, 0.5, 0.77, 0.99, 1) * n))) {
    for (alpha in c(0.2, 0.1, 0.01, 0.001)) {
      ends <- binom.test(k, n, conf.level = 1 - alpha)$conf.int
      cat(sprintf("%d,%d,%g,%.17g,%.17g\n", k, n, alpha, ends[1], ends[2]))
    }
  }
}
