# Numbers for tests/reference/test_metrics_against_r.py, from the CSV files of this folder:
#   cd tests/reference/metrics && Rscript reference.R
# Needs rms, pROC, jsonlite (Debian: r-cran-rms, r-cran-proc, r-cran-jsonlite). Weighted data: rows are repeated.
suppressPackageStartupMessages({library(rms); library(pROC); library(jsonlite)})

QUANTILES <- 1:9 / 10

as_list <- function(x) as.list(setNames(as.numeric(x), names(x)))

# glm's covariances are those of the step before the last, off by 3e-8 here: fitted again from where it ended.
glm_fit <- function(formula, data) {
  once <- function(start) glm(formula, binomial, data, start = start, control = list(epsilon = 1e-14, maxit = 200))
  once(coef(once(NULL)))
}

recalibration <- function(p, y) {
  data <- data.frame(y = y, z = qlogis(p))
  one <- glm_fit(y ~ 1 + offset(z), data)
  two <- glm_fit(y ~ z, data)
  log_likelihood <- function(q) sum(dbinom(y, 1, q, log = TRUE))
  null <- log_likelihood(p)
  list(
    intercept_only = unname(coef(one)), intercept_only_se = sqrt(vcov(one)[1, 1]),
    intercept = unname(coef(two)[1]), slope = unname(coef(two)[2]),
    intercept_se = sqrt(vcov(two)[1, 1]), slope_se = sqrt(vcov(two)[2, 2]), vcov = unname(vcov(two)),
    # Likelihood ratio tests: of intercept 0 and slope 1 (2 df), intercept 0 given slope 1 (1), slope 1 (1).
    lr_both = 2 * (log_likelihood(fitted(two)) - null), lr_intercept = 2 * (log_likelihood(fitted(one)) - null),
    lr_slope = 2 * (log_likelihood(fitted(two)) - log_likelihood(fitted(one))),
    wald_both = { d <- coef(two) - c(0, 1); sum(d * solve(vcov(two), d)) }
  )
}

# Two groupings. ResourceSelection::hoslem.test (not in Debian, hence written out) cuts at the unique values of R's
# default quantiles (type 7), closed on the right, the first group also on the left: when the smallest score is tied up
# to the first decile, it shares a group with the next score. Ours: each group ends with the score at which k/g of the
# rows are reached (type 1), and a tied smallest score can be a group.
rule_of_r <- function(p, g = 10) cut(p, unique(quantile(p, 0:g / g)), include.lowest = TRUE)
rule_of_ours <- function(p, g = 10) cut(p, c(-Inf, unique(quantile(p, 1:g / g, type = 1))))

hosmer_lemeshow <- function(p, y, group) {
  n <- tapply(p, group, length); k <- tapply(y, group, sum); e <- tapply(p, group, sum)
  used <- !is.na(n); n <- n[used]; k <- k[used]; e <- e[used]
  chisq <- sum((k - e)^2 / e + (k - e)^2 / (n - e))
  list(statistic = chisq, groups = length(n), n = unname(n), events = unname(k), expected = unname(e),
       p_external = pchisq(chisq, length(n), lower.tail = FALSE),
       p_internal = pchisq(chisq, length(n) - 2, lower.tail = FALSE))
}

log_score <- function(y, q) -mean(ifelse(y == 1, log(q), log1p(-q)))
brier_score <- function(y, q) mean((y - q)^2)

# Stable reliability diagrams (Dimitriadis, Gneiting and Jordan 2021): isotonic refit, ties pooled by isoreg itself.
corp <- function(p, y, score) {
  fit <- isoreg(p, y)
  refit <- numeric(length(p)); refit[if (fit$isOrd) seq_along(p) else fit$ord] <- fit$yf
  overall <- score(y, rep(mean(y), length(y)))
  list(score = score(y, p), miscalibration = score(y, p) - score(y, refit),
       discrimination = overall - score(y, refit), uncertainty = overall)
}

# Murphy's decomposition over 10 bins of equal width, [0, .1), ..., [.9, 1]: what is left over is the spread of scores
# within bins, and zero where each bin holds one score.
murphy <- function(p, y, bins = 10) {
  b <- findInterval(p, (1:(bins - 1)) / bins)
  n <- tapply(y, b, length); rate <- tapply(y, b, mean); centre <- tapply(p, b, mean)
  list(reliability = sum(n * (rate - centre)^2) / length(y), resolution = sum(n * (rate - mean(y))^2) / length(y),
       uncertainty = mean(y) * (1 - mean(y)), score = brier_score(y, p))
}

ranked <- function(p, y) {
  curve <- roc(y, p, direction = "<", levels = c(0, 1), quiet = TRUE)
  list(auc = as.numeric(auc(curve)), se = sqrt(var(curve, method = "delong")))
}

errors <- function(p, q) {
  e <- abs(p - q)
  list(mean = mean(e), median = median(e), q90 = unname(quantile(e, 0.9)), max = max(e))
}

lowess_curve <- function(p, y) {
  at <- unname(quantile(p, QUANTILES, type = 1))
  rough <- lowess(p, y, iter = 0)             # R's default: f = 2/3, delta = 1 % of the range (interpolated between)
  fine <- lowess(p, y, iter = 0, delta = 0)   # a local line at each score
  list(at = at, default = approx(rough, xout = at, ties = mean)$y, exact = approx(fine, xout = at, ties = mean)$y,
       errors_default = errors(p, approx(rough, xout = p, ties = mean)$y),
       errors_exact = errors(p, approx(fine, xout = p, ties = mean)$y))
}

# Logistic regression on the restricted cubic spline of the log-odds, 5 knots at Harrell's quantiles (type 7); 4 where
# two of the five coincide; none with ten events, where maximum likelihood with 5 knots does not exist.
spline_curve <- function(p, y) {
  z <- qlogis(p)
  if (sum(y) < 20) return(NULL)
  knots <- unname(quantile(z, c(0.05, 0.275, 0.5, 0.725, 0.95)))
  if (anyDuplicated(knots)) knots <- unname(quantile(z, c(0.05, 0.35, 0.65, 0.95)))
  last <- length(knots)
  fit <- glm_fit(y ~ x, list(y = y, x = rcspline.eval(z, knots = knots, inclx = TRUE)))
  natural <- splines::ns(z, knots = knots[2:(last - 1)], Boundary.knots = knots[c(1, last)])
  again <- glm_fit(y ~ x, list(y = y, x = natural))
  stopifnot(fit$converged, max(abs(fitted(fit) - fitted(again))) < 1e-8)  # rms::rcs and splines::ns span one space
  at <- unname(quantile(p, QUANTILES, type = 1))
  x <- rcspline.eval(qlogis(at), knots = knots, inclx = TRUE)
  list(knots = knots, at = at, fitted = as.numeric(plogis(cbind(1, x) %*% coef(fit))), errors = errors(p, fitted(fit)))
}

# Austin and Steyerberg 2019: loess with R's defaults (span 0.75, local quadratics), surface computed directly.
loess_curve <- function(p, y) {
  if (length(unique(p)) < 10) return(NULL)
  fit <- suppressWarnings(loess(y ~ p, control = loess.control(surface = "direct")))
  errors(p, fitted(fit))
}

data_set <- function(name) {
  rows <- read.csv(paste0(name, ".csv"))
  p <- rep(rows$score, rows$weight); y <- rep(rows$y, rows$weight)
  list(
    rows = length(y), events = sum(y), val_prob = as_list(val.prob(p, y, pl = FALSE)), glm = recalibration(p, y),
    hosmer_lemeshow = hosmer_lemeshow(p, y, rule_of_r(p)),
    hosmer_lemeshow_ours = hosmer_lemeshow(p, y, rule_of_ours(p)),
    delong = ranked(p, y), corp_brier = corp(p, y, brier_score), corp_log = corp(p, y, log_score),
    murphy = murphy(p, y), brier_se = sd((p - y)^2) / sqrt(length(y)),
    log_se = sd(ifelse(y == 1, -log(p), -log1p(-p))) / sqrt(length(y)),
    lowess = lowess_curve(p, y), spline = spline_curve(p, y), loess = loess_curve(p, y)
  )
}

one_grade <- function(k, n, pd) {
  two_sided <- binom.test(k, n, pd)
  list(greater = binom.test(k, n, pd, alternative = "greater")$p.value,
       less = binom.test(k, n, pd, alternative = "less")$p.value,
       two_sided = two_sided$p.value, low = two_sided$conf.int[1], high = two_sided$conf.int[2],
       jeffreys = pbeta(pd, k + 0.5, n - k + 0.5),
       jeffreys_low = qbeta(0.025, k + 0.5, n - k + 0.5), jeffreys_high = qbeta(0.975, k + 0.5, n - k + 0.5))
}

# Most prudent estimation: a grade is as good as all the worse ones together, whose defaults it shares.
pluto_tasche <- function(rows, level) {
  n <- rev(cumsum(rev(rows$n))); k <- rev(cumsum(rev(rows$events)))
  qbeta(level, k + 1, n - k)
}

# All grades together: the law of the sum of their binomials, by convolution.
portfolio <- function(rows) {
  law <- 1
  for (i in seq_len(nrow(rows))) {
    grade <- dbinom(0:min(rows$n[i], 400), rows$n[i], rows$pd[i])
    law <- convolve(law, rev(grade), type = "open")
  }
  pd <- weighted.mean(rows$pd, rows$n); k <- sum(rows$events); n <- sum(rows$n)
  list(greater = sum(law[(k + 1):length(law)]), less = sum(law[1:(k + 1)]), jeffreys = pbeta(pd, k + 0.5, n - k + 0.5))
}

rows <- read.csv("grades.csv")
grades <- mapply(one_grade, rows$events, rows$n, rows$pd, SIMPLIFY = FALSE)
levels <- c(0.5, 0.75, 0.9, 0.95, 0.99)
numbers <- list(
  versions = list(R = R.version.string, rms = as.character(packageVersion("rms")),
                  pROC = as.character(packageVersion("pROC"))),
  data = sapply(c("smooth", "calibrated", "rare", "heaped", "weighted"), data_set, simplify = FALSE),
  grades = grades, holm = p.adjust(sapply(grades, `[[`, "greater"), "holm"),
  portfolio = portfolio(rows),
  pluto_tasche = sapply(as.character(levels), function(g) pluto_tasche(rows, as.numeric(g)), simplify = FALSE)
)
writeLines(toJSON(numbers, digits = NA, auto_unbox = TRUE, pretty = 2, null = "null", na = "null"), "reference.json")
