//! Reads the text of a file in the encodings that people have dumps in: UTF-8, UTF-16 as Windows
//! PowerShell writes it, both also gzipped.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::system::files::GZIP;

/// Size of the largest text that loopwatch unpacks. A small gzip file may hold terabytes.
const MAX_UNPACKED: u64 = 1 << 30;

/// Reads a file.
///
/// # Errors
/// If it cannot be read, or is no text.
pub(super) fn read(path: &Path) -> io::Result<String> {
    let bytes = std::fs::read(path)?;
    text(unpacked(bytes, MAX_UNPACKED)?)
}

/// The unpacked content, if it is gzipped, up to `most` bytes.
fn unpacked(bytes: Vec<u8>, most: u64) -> io::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }

    let mut unpacked = Vec::new();
    let taken = MultiGzDecoder::new(&*bytes).take(most + 1).read_to_end(&mut unpacked);
    match taken {
        Ok(size) if size as u64 > most => Err(invalid(format!(
            "it is gzipped, and unpacks to more than {} MiB; unpack it with gunzip, and divide it into several files",
            most >> 20
        ))),
        Ok(_) => Ok(unpacked),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(invalid(
            "it is gzipped, and ends in the middle of the compressed data, so it is incomplete; create it again".to_owned(),
        )),
        Err(error) => Err(invalid(format!("it is gzipped, but the compressed data are invalid ({error})"))),
    }
}

/// The text in these bytes. JSON and YAML begin with an ASCII character, so the first two bytes show
/// the encoding even without a byte order mark.
fn text(bytes: Vec<u8>) -> io::Result<String> {
    let utf16 = |unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map_err(|_| {
            invalid("it is invalid UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`".to_owned())
        })
    };

    match bytes[..] {
        [0xff, 0xfe, ..] | [_, 0, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] | [0, _, ..] => utf16(u16::from_be_bytes),
        _ => String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            invalid(format!(
                "it is neither UTF-8 nor UTF-16 text (see byte {place}); loopwatch reads JSON and YAML from `kubectl get -o json|yaml`"
            ))
        }),
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).expect("memory");
        encoder.finish().expect("memory")
    }

    fn problem(result: io::Result<Vec<u8>>) -> String {
        result.expect_err("a problem").to_string()
    }

    #[test]
    fn gzip_is_unpacked_up_to_a_limit() {
        assert_eq!(unpacked(packed(b"{}"), 2).expect("unpacked"), b"{}");
        assert!(problem(unpacked(packed(b"{  }"), 2)).contains("unpacks to more than"));

        let half = |bytes: Vec<u8>| bytes[..bytes.len() / 2].to_vec();
        assert!(problem(unpacked(half(packed(&[7; 999])), 999)).contains("is incomplete"));
    }

    #[test]
    fn utf_16_is_decoded_and_binary_is_refused() {
        let little: Vec<u8> = "{\"ä\": 1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "\u{feff}{\"ä\": 1}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(text(little).expect("text"), "{\"ä\": 1}");
        assert_eq!(text(big).expect("text"), "\u{feff}{\"ä\": 1}");

        let odd = text(vec![b'P', b'K', 3, 4, 0xff]).expect_err("a problem").to_string();
        assert!(odd.contains("neither UTF-8 nor UTF-16") && odd.contains("byte 4"), "{odd}");
    }
}
