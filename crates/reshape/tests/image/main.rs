//! Programs linked anew, compared with a model. The model knows the mapping of every page, and for every byte the
//! segment and its place there.

mod cases;
mod model;
mod nonsense;
mod stories;

use mmulab_addr::BASE_BYTES;
use mmulab_elf::{Linker, Part, Segment, layout};
use mmulab_trace::Backing;
use model::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use stories::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Every reference finds the byte it found, with the rights it had; what is of no file stays where it was.
    #[test]
    fn every_byte_is_found_again(
        one in file("/bin/one", 0x40_0000),
        two in file("/lib/two", 0x2000_0000),
        over in any::<[bool; 2]>(),
        then in prop::collection::vec((0usize..2, then()), 0..5),
        linker in linker(),
        order in 0u8..10,
        at_once in 1usize..200,
    ) {
        let files = [one, two];
        let said = story(&files, &over, &then);
        let told = linked_anew(&said, linker, order, at_once).unwrap();
        let max = BASE_BYTES << order;
        let placed: Vec<Vec<Segment>> = files.iter().map(|f| {
            let parts: Vec<Part> = f.segments.iter().map(Part::from).collect();
            layout(&parts, linker, max).unwrap().into_iter().map(|p| p.segment).collect()
        }).collect();

        let (mut before, mut after) = (Memory::default(), Memory::default());
        let mut told = told.into_iter();
        let mut moved: BTreeMap<u64, u64> = BTreeMap::new();
        for word in &said {
            let old = match word {
                Word::Ref(old) => *old,
                Word::Event(event) => {
                    before.apply(event);
                    moved.clear();
                    continue;
                }
            };
            let new = loop {
                match told.next().expect("as many references as before") {
                    Word::Ref(new) => break new,
                    Word::Event(event) => after.apply(&event),
                }
            };
            prop_assert_eq!((old.is_fetch(), old.is_write(), old.instructions()),
                            (new.is_fetch(), new.is_write(), new.instructions()));
            let (was, is) = (old.va(), new.va());
            let (prot, backing) = before.at(was).expect("only mapped pages are touched").clone();
            let Some((now, shows)) = after.at(is).cloned() else {
                return Err(TestCaseError::fail(format!("{was} became {is}, where nothing is mapped")));
            };
            prop_assert!(now.has(prot), "{} may {:?}, at {} {:?}", was, prot, is, now);
            // Which byte of which file it was.
            let file = files.iter().position(|f| (f.bias..f.end()).contains(&was.raw()));
            let other = matches!(&backing, Backing::File { path, .. } if &**path == "/other");
            let Some(file) = file.filter(|_| !other) else {
                prop_assert_eq!((was, prot, backing), (is, now, shows));
                continue;
            };
            let Some((segment, at)) = files[file].byte(was) else { continue };
            let s = placed[file][segment];
            let replaced = backing == Backing::Anon && at < s.file_bytes;
            if replaced || was == is {
                prop_assert_eq!((was, prot, backing), (is, now, shows));
                continue;
            }
            prop_assert_eq!(is.raw() % max % BASE_BYTES, (s.address + at) % BASE_BYTES);
            match shows {
                Backing::File { path, offset } => {
                    prop_assert_eq!(&path, &files[file].path);
                    prop_assert_eq!(offset + is.raw() % BASE_BYTES, s.offset + at, "{} is {}", was, is);
                }
                Backing::Anon => prop_assert!(at >= s.file_bytes, "{} lost its file", was),
            }
            // The load address honours maxpagesize, and is one for the whole file.
            let base = is.raw().wrapping_sub(s.address + at);
            prop_assert_eq!(base.wrapping_sub(placed[file][0].address) % max, 0);
            if let Some(other) = moved.insert(is.raw(), was.raw()) {
                prop_assert_eq!(other, was.raw());
            }
        }
        for word in told {
            prop_assert!(matches!(word, Word::Event(_)));
        }
    }

    /// What the linker laid out as it would again, at an address that honours its maxpagesize, is told as it was.
    #[test]
    fn what_is_linked_alike_stays(one in file("/bin/one", 0x40_0000), over in any::<bool>(), at_once in 1usize..50) {
        let parts: Vec<Part> = one.segments.iter().map(Part::from).collect();
        let segments = layout(&parts, Linker::Lld, BASE_BYTES).unwrap().into_iter().map(|p| p.segment).collect();
        let said = story(&[File { segments, ..one }], &[over], &[]);
        let told = linked_anew(&said, Linker::Lld, 0, at_once).unwrap();
        for (told, said) in told.iter().zip(&said) {
            prop_assert_eq!(told, said);
        }
        prop_assert_eq!(told.len(), said.len());
    }
}
