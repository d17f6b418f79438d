# Each target checks one thing; `make check` runs them all, like CI.
.PHONY: check quick fmt lint deny advisories test rules docs fuzz coverage

check: fmt lint deny rules test

# The inner loop: formatting, lints, and the tests that need no other program. Under a minute once everything is compiled.
quick: fmt
	cargo clippy --workspace --lib --bins -- -D warnings
	cargo test --workspace --lib
	cargo test -p loopwatch-model --test model

# rustfmt decides the formatting.
fmt:
	cargo fmt --all --check

# Warnings are errors only here, so that a newer compiler does not break anybody's build.
lint:
	cargo clippy --workspace --all-targets -- -D warnings

# The dependencies: licences, banned crates and sources, and known advisories: those of today if the database (a git repository on
# GitHub) can be reached, otherwise those of the snapshot in `.ci/advisories`. Needs cargo-deny: `cargo install cargo-deny --locked`.
deny:
	cargo deny check bans licenses sources
	.ci/advisories/check test
	.ci/advisories/check

# Replaces the snapshot by the advisories of today. Needs access to GitHub: read the diff.
advisories:
	.ci/advisories/refresh

# All tests: the pure ones, and those with a real control plane, operator, Prometheus and Alertmanager.
test:
	cargo test

# The syntax of the alert rules, and that each rule stays silent, fires and resolves when it should.
rules:
	promtool check rules alerts/*.rules.yaml alerts/clusters/*.rules.yaml alerts/tenants/*.rules.yaml
	cd alerts/tests && promtool test rules *.test.yaml

# Rewrites the files that are generated from tables and recordings: read the diff.
docs:
	UPDATE=1 cargo test --no-fail-fast --lib --test contracts --test scenarios

# Searches for inputs that break a property of a parser, for a time: `make fuzz TARGET=decode FOR=1h`. Needs a C++ compiler and
# cargo-bolero: `cargo install cargo-bolero --locked --version 0.13.5`. `cargo test` replays what was found. The dictionary has the
# words of the parsers, such as the names of fields, which the engine would hardly guess.
TARGET ?= decode
FOR ?= 5m
fuzz:
	mkdir -p target
	grep -rhoE --include='*.rs' '"[A-Za-z][A-Za-z0-9_./-]{1,40}"' src/sources src/config model/src/model/status model/src/observation \
		| LC_ALL=C sort -u > target/fuzz.dict
	cargo bolero test --package loopwatch-fuzz --engine libfuzzer --sanitizer NONE --profile fuzz -T $(FOR) \
		--engine-args=-max_len=65536 --engine-args=-len_control=20 --engine-args=-dict=$(CURDIR)/target/fuzz.dict $(TARGET)

# The line coverage of each parser by the corpora. Needs `rustup component add llvm-tools`.
coverage:
	fuzz/coverage
