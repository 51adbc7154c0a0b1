# Optimism of a logistic regression by rms::validate, on the same bootstrap samples, written to reference.json:
#   Rscript reference.R, with the package rms. data.csv and samples.csv are written too.
suppressPackageStartupMessages(library(rms))
set.seed(3)
n <- 120; B <- 20
d <- as.data.frame(round(matrix(rnorm(n * 5), n), 3))
names(d) <- paste0("x", 1:5)
d$y <- as.integer(runif(n) < plogis(-0.5 + 0.9 * d$x1 - 0.6 * d$x2))
write.csv(d, "data.csv", row.names = FALSE, quote = FALSE)
fit <- lrm(y ~ x1 + x2 + x3 + x4 + x5, data = d, x = TRUE, y = TRUE, eps = 1e-12)
set.seed(9)
samples <- t(sapply(1:B, function(b) sample.int(n, replace = TRUE)))
set.seed(9)
found <- validate(fit, B = B)
write.table(samples - 1, "samples.csv", sep = ",", row.names = FALSE, col.names = FALSE)
line <- function(name) sprintf('"%s": [%s]', name, paste(sprintf("%.17g", found[name, 1:5]), collapse = ", "))
body <- paste(sapply(c("Dxy", "Intercept", "Slope", "B"), line), collapse = ",\n  ")
writeLines(c("{", sprintf('  "R": "%s", "rms": "%s", "columns": ["apparent", "training", "test", "optimism", "corrected"],',
  getRversion(), packageVersion("rms")), paste0("  ", body), "}"), "reference.json")
