# Numbers for tests/reference/test_parameters_against_r.py, from the CSV files of this folder:
#   cd tests/reference/metrics && Rscript profile.R
# Needs MASS, sandwich, jsonlite (Debian: r-cran-mass, r-cran-sandwich, r-cran-jsonlite).
suppressPackageStartupMessages({library(MASS); library(sandwich); library(jsonlite)})

fit <- function(formula, data) {
  once <- function(start) glm(formula, binomial, data, start = start, control = list(epsilon = 1e-14, maxit = 200))
  once(coef(once(NULL)))
}

# Groups of unequal size, by row number: 1, 2, ..., 12 rows and again.
groups <- function(n) { size <- rep_len(1:12, n); rep(seq_along(size), size)[1:n] }

jackknife <- function(formula, data, which) {
  whole <- coef(fit(formula, data))[[which]]
  sum(sapply(unique(data$g), function(g) (coef(fit(formula, data[data$g != g, ]))[[which]] - whole)^2))
}

profiled <- function(file) {
  d <- read.csv(file); d$z <- qlogis(d$score); d$g <- groups(nrow(d))
  level <- fit(y ~ 1 + offset(z), d); slope <- fit(y ~ z, d)
  ends <- function(model, which) unname(suppressMessages(confint(model, parm = which, level = 0.95)))
  list(
    level = ends(level, "(Intercept)"), slope = ends(slope, "z"),
    # Without corrections, and the jackknife over groups, to which CR3 is a first-order approximation.
    level_cr0 = vcovCL(level, cluster = d$g, type = "HC0", cadjust = FALSE)[1, 1],
    slope_cr0 = vcovCL(slope, cluster = d$g, type = "HC0", cadjust = FALSE)[2, 2],
    level_jackknife = jackknife(y ~ 1 + offset(z), d, "(Intercept)"), slope_jackknife = jackknife(y ~ z, d, "z"),
    groups = max(d$g)
  )
}

files <- c(smooth = "smooth.csv", rare = "rare.csv", heaped = "heaped.csv", calibrated = "calibrated.csv")
write(toJSON(lapply(files, profiled), digits = NA, auto_unbox = TRUE, pretty = TRUE), "profile.json")
