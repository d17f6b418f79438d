//! Comparison of test output with golden files; `UPDATE=1` rewrites them.

use std::fs;
use std::path::Path;

/// Compares `actual` with the part of the file at `path` between `<!-- name -->` and
/// `<!-- end of name -->`, each on a line of its own.
pub(crate) fn check_section(path: &str, name: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{path}: no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{path}: no {end}"));

    check(path, &format!("{before}{begin}{actual}{end}{after}"));
}

/// Compares `actual` with the file at `path`, relative to the package directory.
pub(crate) fn check(path: &str, actual: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(file.parent().expect("a parent directory"))
            .expect("the directory can be created");
        fs::write(&file, actual).expect("the file can be written");
    }

    let expected = fs::read_to_string(&file).unwrap_or_default();
    if expected != actual {
        let line =
            expected.lines().zip(actual.lines()).take_while(|(left, right)| left == right).count();
        let at = |text: &str| text.lines().nth(line).unwrap_or("(end of file)").to_owned();
        panic!(
            "{path} differs at line {}; run with UPDATE=1 to rewrite it\n expected: {}\n   actual: {}",
            line + 1,
            at(&expected),
            at(actual)
        );
    }
}
