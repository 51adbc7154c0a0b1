# Random-effects summaries by metafor: Rscript pooling.R > pooling.json
suppressPackageStartupMessages(library(metafor))

sets <- list(
  few = list(values = c(0.9, 1.1, 0.7, 1), se = c(0.1, 0.1, 0.15, 0.2)),
  apart = list(values = c(0.9, 1.1, 0.7, 1.5, 0.2), se = c(0.1, 0.1, 0.15, 0.2, 0.05)),
  alike = list(values = c(0.9, 0.91, 0.92), se = c(0.3, 0.4, 0.5)),
  mixed = list(values = c(-0.31, 0.12, 0.55, -0.8, 0.02, 0.4, 0.11), se = c(0.2, 0.1, 0.35, 0.4, 0.05, 0.22, 0.6)),
  two = list(values = c(1, 2), se = c(0.1, 0.1))
)
of_set <- function(each) {
  found <- rma(yi = each$values, sei = each$se, method = "REML", test = "knha",
               control = list(threshold = 1e-14, maxiter = 10000))
  expected <- predict(found)
  numbers <- c(found$beta, found$se, found$ci.lb, found$ci.ub, expected$pi.lb, expected$pi.ub, found$tau2,
               found$I2 / 100, found$QE, found$QEp)
  sprintf("[%s]", paste(sprintf("%.15g", numbers), collapse = ", "))
}
lines <- sapply(names(sets), function(name) {
  each <- sets[[name]]
  sprintf('  "%s": {"values": [%s], "se": [%s], "metafor": %s}', name, paste(each$values, collapse = ", "),
          paste(each$se, collapse = ", "), of_set(each))
})
cat("{\n", paste(lines, collapse = ",\n"), "\n}\n", sep = "")
