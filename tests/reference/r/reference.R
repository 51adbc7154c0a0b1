# Reference numbers for test_against_r.py. Run in this folder: Rscript reference.R
# Reads input.csv (score, y, weight); writes platt.csv, platt_weighted.csv, beta.csv (coefficients), fitted.csv and
# isotonic.csv (row by row).

rows <- read.csv("input.csv", colClasses = "numeric")
tight <- glm.control(epsilon = 1e-14, maxit = 100)
number <- function(x) sprintf("%.17g", x)
write <- function(table, file) write.csv(table, file, row.names = FALSE, quote = FALSE)

log_odds <- log(rows$score / (1 - rows$score))
platt <- glm(y ~ log_odds, family = binomial, data = rows, control = tight)
platt_on_score <- glm(y ~ score, family = binomial, data = rows, control = tight)
write(data.frame(on = c("log-odds", "score"),
                 slope = number(c(coef(platt)[[2]], coef(platt_on_score)[[2]])),
                 intercept = number(c(coef(platt)[[1]], coef(platt_on_score)[[1]]))), "platt.csv")

# Kull, Silva Filho and Flach (2017): a log s - b log(1 - s) + c. The constraints a, b >= 0 are inactive on these rows.
rise <- log(rows$score)
fall <- -log(1 - rows$score)
abm <- glm(y ~ rise + fall, family = binomial, data = rows, control = tight)
am <- glm(y ~ I(rise + fall), family = binomial, data = rows, control = tight)
ab <- glm(y ~ 0 + I(rise + log(2)) + I(fall - log(2)), family = binomial, data = rows, control = tight)
stopifnot(coef(abm)[2:3] > 0, coef(am)[2] > 0, coef(ab) > 0)
write(data.frame(variant = c("abm", "am", "ab"),
                 a = number(c(coef(abm)[[2]], coef(am)[[2]], coef(ab)[[1]])),
                 b = number(c(coef(abm)[[3]], coef(am)[[2]], coef(ab)[[2]])),
                 c = number(c(coef(abm)[[1]], coef(am)[[1]], (coef(ab)[[1]] - coef(ab)[[2]]) * log(2)))), "beta.csv")

weighted <- glm(y ~ log_odds, family = quasibinomial, data = rows, weights = weight, control = tight)
write(data.frame(slope = number(coef(weighted)[[2]]), intercept = number(coef(weighted)[[1]])), "platt_weighted.csv")

write(data.frame(platt = number(fitted(platt)), beta = number(fitted(abm))), "fitted.csv")

# isoreg breaks ties by y; here only the first row of each score takes part.
distinct <- rows[!duplicated(rows$score), ]
fit <- isoreg(distinct$score, distinct$y)
in_order <- order(distinct$score)
write(data.frame(score = number(distinct$score[in_order]), y = distinct$y[in_order], fitted = number(fit$yf)),
      "isotonic.csv")
writeLines(R.version.string, "version.txt")
