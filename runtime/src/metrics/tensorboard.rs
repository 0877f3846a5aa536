//! Event files as TensorBoard reads them: records of protocol buffers, each with checksums.
//!
//! A record is its length (64 bits), the length's checksum, the data and the data's checksum, all little-endian; a checksum is a CRC-32C, rotated and shifted
//! by a constant so that a checksum of checksums stays one. Of the protocol only what scalars need is written: `Event` with `wall_time` (1), `step` (2),
//! `file_version` (3), `summary` (5) or `session_log` (7); `Summary.value` (1) with `tag` (1) and `simple_value` (2).

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut c, mut bit) = (i as u32, 0);
        while bit < 8 {
            c = if c & 1 == 1 { c >> 1 ^ POLYNOMIAL } else { c >> 1 };
            bit += 1;
        }
        table[i] = c;
        i += 1;
    }
    table
};

/// The CRC-32C (Castagnoli) of some bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, b| crc >> 8 ^ TABLE[((crc ^ u32::from(*b)) & 0xff) as usize])
}

/// A checksum as records hold it.
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Data as a record.
pub fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let sum = |bytes: &[u8]| masked(crc32c(bytes)).to_le_bytes();
    [&length, sum(&length).as_slice(), data, sum(data).as_slice()].concat()
}

/// The first record of a file.
pub fn version(wall_time: f64) -> Vec<u8> {
    let mut event = begun(wall_time, 0);
    bytes(&mut event, 3, b"brain.Event:2");
    record(&event)
}

/// Says that a run goes on from `step`: what the folder holds of later steps is of a run that was broken off.
pub fn started(wall_time: f64, step: u64) -> Vec<u8> {
    const START: u64 = 1;
    let mut log = Vec::new();
    key(&mut log, 1, 0);
    varint(&mut log, START);
    let mut event = begun(wall_time, step);
    bytes(&mut event, 7, &log);
    record(&event)
}

/// Scalars of a step, by tag.
pub fn scalars<'a>(wall_time: f64, step: u64, values: impl IntoIterator<Item = (&'a str, f64)>) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, value) in values {
        let mut one = Vec::new();
        bytes(&mut one, 1, tag.as_bytes());
        key(&mut one, 2, 5);
        one.extend((value as f32).to_le_bytes());
        bytes(&mut summary, 1, &one);
    }
    let mut event = begun(wall_time, step);
    bytes(&mut event, 5, &summary);
    record(&event)
}

fn begun(wall_time: f64, step: u64) -> Vec<u8> {
    let mut event = Vec::new();
    key(&mut event, 1, 1);
    event.extend(wall_time.to_le_bytes());
    key(&mut event, 2, 0);
    varint(&mut event, step);
    event
}

fn key(to: &mut Vec<u8>, field: u64, wire: u64) {
    varint(to, field << 3 | wire);
}

fn bytes(to: &mut Vec<u8>, field: u64, data: &[u8]) {
    key(to, field, 2);
    varint(to, data.len() as u64);
    to.extend(data);
}

fn varint(to: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_the_published_ones() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let of = |n| {
            let mut v = Vec::new();
            varint(&mut v, n);
            v
        };
        assert_eq!((of(0), of(127), of(128), of(300)), (vec![0], vec![127], vec![128, 1], vec![172, 2]));
        assert_eq!(of(u64::MAX).len(), 10);
    }
}
