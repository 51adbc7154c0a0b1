# R's numbers about censored.csv and competing.csv, written to reference.json:
#   Rscript reference.R, with the packages survival, prodlim, riskRegression and sandwich.
suppressPackageStartupMessages({library(survival); library(prodlim); library(riskRegression); library(sandwich)})
horizon <- 5
text <- function(x) paste0("[", paste(sprintf("%.17g", as.numeric(x)), collapse = ", "), "]")

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
  before <- function(t) predict(G, times = t - 1e-6, type = "surv")
  known <- (d$time <= horizon & d$event != 0) | d$time > horizon | (d$time == horizon & d$event == 0)
  w <- ifelse(known, 1 / before(pmin(d$time, horizon)), 0)
  y <- as.numeric(d$time <= horizon & d$event == 1)
  out$weight <- w
  # Intercept and slope: binomial score equations, robust standard errors
  for (link in c("logit", "cloglog")) {
    z <- if (link == "logit") qlogis(d$risk) else log(-log(1 - d$risk))
    q <- quasi(link = link, variance = "mu(1-mu)")
    control <- glm.control(epsilon = 1e-14, maxit = 200)
    start <- if (link == "logit") plogis(z) else 1 - exp(-exp(z))
    suppressWarnings({
      shift <- glm(pseudo ~ 1 + offset(z), family = q, mustart = start, control = control)
      line <- glm(pseudo ~ z, family = q, mustart = start, control = control)
      wline <- glm(y ~ z, family = q, weights = w, mustart = start, control = control)
    })
    out[[paste0(link, "_pseudo")]] <- c(coef(shift), coef(line)[2:1])
    out[[paste0(link, "_pseudo_se")]] <- sqrt(c(vcovHC(shift, type = "HC0"), diag(vcovHC(line, type = "HC0"))[2:1]))
    out[[paste0(link, "_ipcw")]] <- coef(wline)[2:1]
  }
  # Brier score, AUC and index of prediction accuracy; no row is censored exactly at this horizon
  at <- horizon - 0.1
  fields <- list(list(model = d$risk))
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
