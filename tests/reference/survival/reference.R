# R's numbers about censored.csv and competing.csv, written to reference.json:
#   Rscript reference.R, with the packages survival, prodlim and riskRegression.
suppressPackageStartupMessages({library(survival); library(prodlim); library(riskRegression)})
horizon <- 5
text <- function(x) paste0("[", paste(sprintf("%.17g", as.numeric(x)), collapse = ", "), "]")

# Score equations of a binomial regression by Fisher scoring; glm() refuses pseudo-observations outside [0, 1]
solve_scores <- function(x, offset, target, weight, link) {
  f <- make.link(link)
  beta <- if (ncol(x) == 1) 0 else c(1, 0)
  for (step in 1:100) {
    eta <- as.numeric(x %*% beta) + offset
    mu <- f$linkinv(eta)
    d <- f$mu.eta(eta)
    v <- mu * (1 - mu)
    u <- x * (weight * (target - mu) * d / v)
    bread <- solve(t(x) %*% (x * (weight * d^2 / v)))
    beta <- beta + as.numeric(bread %*% colSums(u))
  }
  list(coef = beta, se = sqrt(diag(bread %*% crossprod(u) %*% bread)))
}

analyse <- function(name) {
  d <- read.csv(paste0(name, ".csv"))
  n <- nrow(d)
  out <- list()
  # Observed risk and its standard error (Greenwood; Aalen-Johansen)
  if (all(d$event < 2)) {
    fit <- summary(survfit(Surv(time, event) ~ 1, data = d, conf.type = "log-log"), times = horizon)
    out$risk <- 1 - fit$surv; out$risk_se <- fit$std.err
    out$risk_interval <- c(1 - fit$upper, 1 - fit$lower)
    leave <- function(i) 1 - summary(survfit(Surv(time, event) ~ 1, data = d[-i, ]), times = horizon)$surv
  } else {
    aj <- function(x) summary(survfit(Surv(time, factor(event, 0:2)) ~ 1, data = x), times = horizon, extend = TRUE)
    out$risk <- aj(d)$pstate[, 2]; out$risk_se <- aj(d)$std.err[, 2]
    leave <- function(i) aj(d[-i, ])$pstate[, 2]
  }
  pseudo <- n * out$risk - (n - 1) * sapply(seq_len(n), leave)
  out$pseudo <- pseudo
  # Weights: Kaplan-Meier of censoring, events first (prodlim, reverse)
  G <- prodlim(Hist(time, event) ~ 1, data = d, reverse = TRUE)
  before <- function(t) stepfun(G$time, c(1, G$surv))(t - 1e-6)
  known <- (d$time <= horizon & d$event != 0) | d$time > horizon | (d$time == horizon & d$event == 0)
  w <- ifelse(known, 1 / before(pmin(d$time, horizon)), 0)
  y <- as.numeric(d$time <= horizon & d$event == 1)
  out$weight <- w
  # Intercept and slope: binomial score equations, robust standard errors
  for (link in c("logit", "cloglog")) {
    z <- if (link == "logit") qlogis(d$risk) else log(-log(1 - d$risk))
    shift <- solve_scores(matrix(1, n), z, pseudo, rep(1, n), link)
    line <- solve_scores(cbind(z, 1), rep(0, n), pseudo, rep(1, n), link)
    wline <- solve_scores(cbind(z, 1), rep(0, n), y, w, link)
    out[[paste0(link, "_pseudo")]] <- c(shift$coef, line$coef)
    out[[paste0(link, "_pseudo_se")]] <- c(shift$se, line$se)
    out[[paste0(link, "_ipcw")]] <- wline$coef
  }
  # Brier score, AUC and index of prediction accuracy; no row is censored exactly at this horizon
  at <- horizon - 0.1
  score <- Score(list(model = d$risk), formula = if (all(d$event < 2)) Surv(time, event) ~ 1 else Hist(time, event) ~ 1,
                 data = d, times = at, metrics = c("auc", "brier"), summary = "ipa", se.fit = TRUE, null.model = TRUE,
                 cens.model = "km", conservative = FALSE)
  out$auc <- unlist(score$AUC$score[model == "model", .(AUC, se)])
  out$brier <- unlist(score$Brier$score[model == "model", .(Brier, se, IPA)])
  paste0('  "', name, '": {', paste(sprintf('"%s": %s', names(out), sapply(out, text)), collapse = ",\n    "), "}")
}
body <- sapply(c("censored", "competing"), analyse)
versions <- sapply(c("survival", "prodlim", "riskRegression"), function(p) as.character(packageVersion(p)))
head <- sprintf('  "R": "%s", %s', getRversion(), paste(sprintf('"%s": "%s"', names(versions), versions), collapse = ", "))
writeLines(c("{", paste0(head, ","), paste(body, collapse = ",\n"), "}"), "reference.json")
