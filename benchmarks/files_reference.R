# What R's package survey answers about the survey files of the tests: estimates, standard errors, degrees of freedom, intervals.
#
#   python benchmarks/files_made.py made
#   Rscript benchmarks/files_reference.R made tests/golden tests/golden/survey_files.json
#
# Needs R and its package survey, nothing else. Missing answers leave the estimate and stay in the design (a domain).
# "se" is linearised (of replicate weights: theirs). "se_jackknife" leaves out one cluster at a time (JKn, without strata JK1);
# the interval is estimate -+ t times it, df = clusters - strata. Quantiles: Woodruff's interval, se = its width over 2 t.

suppressPackageStartupMessages(library(survey))
options(survey.lonely.psu = "fail", digits = 15)
arguments <- commandArgs(trailingOnly = TRUE)
made <- arguments[1]; golden <- arguments[2]; target <- arguments[3]

number <- function(x) if (is.null(x) || is.na(x)) "null" else format(as.numeric(x), digits = 15, scientific = NA)
quoted <- function(x) paste0('"', gsub('"', '\\\\"', x), '"')
field <- function(x) if (is.character(x)) quoted(x) else number(x)
object <- function(x) { x <- x[!vapply(x, is.null, TRUE)]
  paste0("{", paste0(quoted(names(x)), ": ", vapply(x, field, ""), collapse = ", "), "}") }
lines <- character()

# One number of one file: what is asked, in which domain, and R's answer.
add <- function(file, asked, found) lines <<- c(lines, object(c(list(file = file), asked, found)))

jackknifed <- function(design) {
  stratified <- isTRUE(design$has.strata)
  as.svrepdesign(design, type = if (stratified) "JKn" else "JK1")
}

statistic <- function(kind, y, x, q) switch(kind,
  mean = function(d) svymean(as.formula(paste0("~", y)), d),
  proportion = function(d) svymean(as.formula(paste0("~I(as.numeric(", y, "))")), d),
  total = function(d) svytotal(as.formula(paste0("~", y)), d),
  count = function(d) svytotal(as.formula(paste0("~I(as.numeric(", y, "))")), d),
  ratio = function(d) svyratio(as.formula(paste0("~", y)), as.formula(paste0("~", x)), d))

# `cases` are asked of a file with its own design, and of its jackknife; `replicated`: a design of replicate weights stands alone.
ask <- function(file, design, cases, replicated = FALSE) {
  replicates <- if (replicated) NULL else jackknifed(design)
  for (case in cases) {
    kind <- case[[1]]; y <- case[[2]]; x <- case$x; domain <- case$domain; q <- case$q
    column <- sub("[ =].*", "", y)
    levels <- if (is.null(domain)) list(NULL) else as.list(sort(unique(as.character(design$variables[[domain]]))))
    for (level in levels) {
      here <- function(d) {
        kept <- !is.na(d$variables[[column]])
        if (!is.null(level)) kept <- kept & as.character(d$variables[[domain]]) == level
        if (all(kept)) d else subset(d, kept)
      }
      asked <- list(kind = kind, y = y, x = x, q = q, domain = domain, level = level)
      df <- degf(design)
      if (kind == "quantile") {
        if (replicated) next
        f <- svyquantile(as.formula(paste0("~", y)), here(design), q, ci = TRUE, interval.type = "mean", df = df)[[1]]
        add(file, asked, list(estimate = f[1, "quantile"], se = f[1, "se"], df = df, low = f[1, "ci.2.5"], high = f[1, "ci.97.5"]))
        next
      }
      ask_of <- statistic(kind, y, x, q)
      own <- ask_of(here(design)); estimate <- as.numeric(coef(own)); se <- as.numeric(SE(own))
      jackknife <- if (replicated) se else as.numeric(SE(ask_of(here(replicates))))
      half <- qt(0.975, df) * jackknife
      add(file, asked, list(estimate = estimate, se = se, se_jackknife = jackknife, df = df, low = estimate - half, high = estimate + half))
    }
  }
}

read_golden <- function(name) read.csv(file.path(golden, name))
read_made <- function(name) read.csv(file.path(made, paste0(name, ".csv")))

# --- public-use files ---
d <- svydesign(id = ~SDMVPSU, strata = ~SDMVSTRA, weights = ~WTMEC2YR, nest = TRUE, data = read_golden("nhanes0910_chol.csv"))
ask("nhanes", d, list(list("proportion", "HI_CHOL == 1"), list("mean", "HI_CHOL"), list("count", "HI_CHOL == 1"),
  list("proportion", "HI_CHOL == 1", domain = "agecat"), list("proportion", "HI_CHOL == 1", domain = "race"),
  list("count", "HI_CHOL == 1", domain = "agecat")))
d <- svydesign(id = ~psuid, strata = ~stratid, weights = ~finalwgt, nest = TRUE, data = read_golden("nhanes2.csv.gz"))
ask("nhanes2", d, list(list("proportion", "highbp == 1"), list("count", "highbp == 1"), list("proportion", "highbp == 1", domain = "race"),
  list("mean", "zinc"), list("mean", "zinc", domain = "race"), list("quantile", "zinc", q = 0.5)))
d <- svydesign(id = ~psu, strata = ~stratum, weights = ~weight, data = read_golden("yrbs2015_helmet.csv"))
ask("yrbs", d, list(list("proportion", "qn8 == 1"), list("count", "qn8 == 1")))

# --- samples from the synthetic frame of 6,000 units ---
usual <- list(list("mean", "y"), list("total", "y"), list("proportion", "b == 1"), list("count", "b == 1"), list("ratio", "y", x = "x"),
  list("mean", "y", domain = "dom"), list("total", "y", domain = "dom"), list("quantile", "y", q = 0.5))
d <- read_golden("synth_cluster.csv"); ask("synth_cluster", svydesign(id = ~cluster, weights = ~w, data = d), usual)
ask("synth_cluster, fpc", svydesign(id = ~cluster, weights = ~w, fpc = ~fpc, data = d), usual)
d <- read_golden("synth_stratcluster.csv"); ask("synth_stratcluster", svydesign(id = ~cluster, strata = ~stratum, weights = ~w, data = d), usual)
ask("synth_stratcluster, fpc", svydesign(id = ~cluster, strata = ~stratum, weights = ~w, fpc = ~fpc, data = d), usual)
d <- read_golden("synth_twostage.csv"); ask("synth_twostage", svydesign(id = ~cluster, weights = ~w, data = d), usual)
d <- read_golden("synth_strat.csv"); ask("synth_strat", svydesign(id = ~1, strata = ~stratum, weights = ~w, data = d), usual)
ask("synth_strat, fpc", svydesign(id = ~1, strata = ~stratum, weights = ~w, fpc = ~fpc, data = d), usual)
d <- read_golden("synth_brr.csv"); ask("synth_brr", svydesign(id = ~cluster, strata = ~pstratum, weights = ~w, data = d), usual)
of_replicates <- usual[vapply(usual, function(case) case[[1]] != "quantile", TRUE)]
for (kind in c("brr", "fay05", "jkn")) {
  weights <- read.csv(file.path(golden, paste0("synth_brr_repweights_", kind, ".csv.gz")))
  r <- switch(kind,
    brr = svrepdesign(weights = ~w, repweights = weights, type = "BRR", mse = TRUE, combined.weights = TRUE, data = d),
    fay05 = svrepdesign(weights = ~w, repweights = weights, type = "Fay", rho = 0.5, mse = TRUE, combined.weights = TRUE, data = d),
    jkn = svrepdesign(weights = ~w, repweights = weights, type = "JKn", scale = 1, rscales = rep(0.5, 24), mse = TRUE, combined.weights = TRUE, data = d))
  ask(paste0("synth_brr, ", kind), r, of_replicates, replicated = TRUE)
}

# --- made-up files ---
d <- read_made("schools")
asked <- list(list("mean", "api"), list("proportion", "met == 'yes'"), list("total", "enrol"), list("count", "met == 'yes'"),
  list("mean", "enrol"), list("mean", "api", domain = "kind"), list("quantile", "api", q = 0.5))
ask("schools", svydesign(id = ~district, weights = ~weight, data = d), asked)
ask("schools, fpc", svydesign(id = ~district, weights = ~weight, fpc = ~districts, data = d), asked)

asked <- list(list("mean", "wages"), list("total", "wages"), list("proportion", "works == 'yes'"), list("count", "works == 'yes'"),
  list("ratio", "wages", x = "hours"), list("mean", "wages", domain = "sex"), list("proportion", "insured == 'yes'", domain = "age"),
  list("count", "works == 'yes'", domain = "sex"), list("quantile", "wages", q = 0.5))
of_replicates <- asked[vapply(asked, function(case) case[[1]] != "quantile", TRUE)]
d <- read_made("acs"); ask("acs", svydesign(id = ~1, weights = ~weight, data = d), asked)
ask("acs, replicates", svrepdesign(weights = ~weight, repweights = "wgtp[0-9]+", type = "other", scale = 4 / 80, rscales = rep(1, 80),
  mse = TRUE, combined.weights = TRUE, data = d), of_replicates, replicated = TRUE)
d <- read_made("cps"); ask("cps", svydesign(id = ~area, strata = ~stratum, weights = ~weight, nest = TRUE, data = d), asked)
ask("cps, replicates", svrepdesign(weights = ~weight, repweights = "repwt[0-9]+", type = "other", scale = 4 / 160, rscales = rep(1, 160),
  mse = TRUE, combined.weights = TRUE, data = d), of_replicates, replicated = TRUE)
d <- read_made("bootstrap"); ask("bootstrap", svydesign(id = ~area, strata = ~stratum, weights = ~weight, nest = TRUE, data = d), asked)
ask("bootstrap, replicates", svrepdesign(weights = ~weight, repweights = "bsw[0-9]+", type = "bootstrap", scale = 1 / 200, rscales = rep(1, 200),
  mse = TRUE, combined.weights = TRUE, data = d), of_replicates, replicated = TRUE)
for (name in c("wide-even", "wide-tail"))
  ask(name, svydesign(id = ~1, weights = ~weight, data = read_made(name)), list(list("mean", "amount"), list("proportion", "yes == 'yes'"), list("total", "amount")))

software <- paste0("R ", getRversion(), ", survey ", packageVersion("survey"))
writeLines(c("{", paste0('"software": ', quoted(software), ","), '"cases": [', paste(lines, collapse = ",\n"), "]", "}"), target)
cat(software, "-", length(lines), "cases\n")
