//! Packets of IPv4 that a router cuts because the next link takes no such large ones.
//!
//! Source: RFC 791, sections 2.3 and 3.2; RFC 1812, section 4.2.2.7 and 5.3.1 (a router must do it where the sender allows it).
//! Deviations: pieces are as large as fits, from the front.

use etherparse::{IpFragOffset, Ipv4Header, Ipv4Options};

/// Pieces begin at multiples of this.
const UNIT: usize = 8;
/// No packet has more.
const ROOM: usize = 1 << 11;
/// Of an option: it is in each piece, not only in the first one.
const IS_COPIED: u8 = 0x80;
/// Options of one byte: the end of them, and none.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;

/// Gives the pieces of `packet`, of `most` bytes each at most, to `each`, in order: whether it could be cut. It cannot where its sender
/// forbids it, where it is none of IPv4, and where there is no room for anything but headers. A piece is cut further like a whole packet.
pub fn cut(packet: &[u8], most: usize, mut each: impl FnMut(&[u8])) -> bool {
    let Some((first, payload)) = parts(packet) else { return false };
    let rest = Ipv4Header { options: copied(&first.options), ..first.clone() };
    let begin = usize::from(first.fragment_offset.value());
    let fits = |header: &Ipv4Header| most.min(ROOM).saturating_sub(header.header_len()) / UNIT * UNIT;
    let ends_at = begin + payload.len().div_ceil(UNIT);
    if first.dont_fragment || fits(&first) == 0 || ends_at > usize::from(IpFragOffset::MAX_U16) {
        return false;
    }
    let mut room = [0; ROOM];
    let mut at = 0;
    loop {
        let mut header = if at == 0 { first.clone() } else { rest.clone() };
        let is_last = payload.len() - at <= most.min(ROOM) - header.header_len();
        let end = if is_last { payload.len() } else { at + fits(&header) };
        let piece = &payload[at..end];
        header.more_fragments = first.more_fragments || !is_last;
        header.fragment_offset = IpFragOffset::try_new((begin + at / UNIT) as u16).unwrap_or_default();
        header.total_len = (header.header_len() + piece.len()) as u16;
        header.header_checksum = header.calc_header_checksum();
        let head = header.to_bytes();
        room[..head.len()].copy_from_slice(&head);
        room[head.len()..head.len() + piece.len()].copy_from_slice(piece);
        each(&room[..head.len() + piece.len()]);
        at = end;
        if is_last {
            return true;
        }
    }
}

/// Header and payload, of a packet of IPv4 that is all there.
fn parts(packet: &[u8]) -> Option<(Ipv4Header, &[u8])> {
    let (header, _) = Ipv4Header::from_slice(packet).ok()?;
    let payload = packet.get(header.header_len()..usize::from(header.total_len))?;
    Some((header, payload))
}

/// The options that each piece has.
fn copied(all: &Ipv4Options) -> Ipv4Options {
    let (mut kept, mut length) = ([END; 40], 0);
    let mut left = all.as_slice();
    while let Some(&kind) = left.first() {
        let bytes = match kind {
            END => break,
            NO_OPERATION => 1,
            _ => left.get(1).map_or(0, |&bytes| usize::from(bytes)),
        };
        if bytes == 0 || bytes > left.len() {
            break; // what is broken is nobody's
        }
        let (option, others) = left.split_at(bytes);
        if kind & IS_COPIED != 0 {
            kept[length..length + bytes].copy_from_slice(option);
            length += bytes;
        }
        left = others;
    }
    Ipv4Options::try_from(&kept[..length.next_multiple_of(4)]).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::defrag::IpDefragPool;
    use etherparse::{IpNumber, SlicedPacket};
    use proptest::prelude::*;

    fn packet(payload: &[u8], options: &[u8], forbids: bool) -> Vec<u8> {
        let header = Ipv4Header {
            dont_fragment: forbids,
            identification: 777,
            time_to_live: 9,
            source: [10, 0, 0, 1],
            destination: [10, 0, 0, 2],
            options: Ipv4Options::try_from(options).expect("whole words"),
            ..Ipv4Header::new(payload.len() as u16, 9, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2])
                .expect("it fits")
        };
        let mut header = Ipv4Header { total_len: (header.header_len() + payload.len()) as u16, ..header };
        header.header_checksum = header.calc_header_checksum();
        [&header.to_bytes()[..], payload].concat()
    }

    fn pieces(packet: &[u8], most: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        assert!(cut(packet, most, |piece| all.push(piece.to_vec())));
        all
    }

    /// As another library puts them together.
    fn joined(pieces: &[Vec<u8>]) -> Option<Vec<u8>> {
        let mut pool: IpDefragPool = IpDefragPool::new();
        let mut whole = None;
        for piece in pieces {
            let sliced = SlicedPacket::from_ip(piece).expect("it is a packet");
            whole =
                pool.process_sliced_packet(&sliced, (), ()).expect("it is a piece").map(|all| all.payload);
        }
        whole
    }

    #[test]
    fn options_are_in_all_pieces_or_in_the_first() {
        // Router alert is copied, a time stamp is not.
        let options = [0x94, 4, 0, 0, 0x44, 8, 5, 0, 0, 0, 0, 0];
        let whole = packet(&[7; 100], &options, false);
        let all = pieces(&whole, 72);
        let header = |piece: &[u8]| Ipv4Header::from_slice(piece).expect("it is one").0;
        assert_eq!(header(&all[0]).options.as_slice(), options);
        assert!(all[1..].iter().all(|one| header(one).options.as_slice() == &options[..4]));
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        assert_eq!(lengths, [72, 72, 36], "40, 48 and 12 bytes behind headers of 32 and 24");
    }

    #[test]
    fn what_must_not_or_cannot_be_cut_is_left() {
        for (bytes, most) in
            [(packet(&[7; 100], &[], true), 60), (packet(&[7; 100], &[], false), 27), (vec![0x60; 100], 60)]
        {
            assert!(!cut(&bytes, most, |_| panic!("nothing is cut")));
        }
    }

    proptest! {
        #[test]
        fn pieces_are_small_and_make_the_same_whole_also_when_cut_twice(
            payload in prop::collection::vec(any::<u8>(), 1..2000), most in 28usize..1500, less in 28usize..1500,
        ) {
            let whole = packet(&payload, &[], false);
            let once = pieces(&whole, most);
            let twice: Vec<Vec<u8>> = once.iter().flat_map(|piece| pieces(piece, less)).collect();
            prop_assert!(once.iter().all(|one| one.len() <= most) && twice.iter().all(|one| one.len() <= most.min(less)));
            if once.len() == 1 {
                prop_assert_eq!(&once[0], &whole);
            } else {
                prop_assert_eq!(joined(&once), Some(payload.clone()));
            }
            if twice.len() > 1 {
                prop_assert_eq!(joined(&twice), Some(payload));
            }
            for piece in &twice {
                let header = Ipv4Header::from_slice(piece).expect("it is one").0;
                prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            }
        }

        #[test]
        fn any_bytes_are_cut_or_left(bytes in prop::collection::vec(any::<u8>(), 0..200), most in 0usize..300, is_v4: bool) {
            let mut bytes = bytes;
            if is_v4 && bytes.len() > 8 {
                (bytes[0], bytes[2], bytes[3]) = (0x40 | bytes[0] & 0xf, 0, bytes[3].min(bytes.len() as u8));
                bytes[6] &= 0xbf;
            }
            let _ = cut(&bytes, most, |piece| assert!(piece.len() <= most));
        }
    }
}
