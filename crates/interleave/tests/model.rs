//! A mix beside a model of it that is too simple to be wrong: lists of words, and turns by counting.

use mmulab_addr::{Pid, Tid, VirtAddr};
use mmulab_interleave::{Apart, Counted, End, NUMBERS, PID_BITS, Part, Schedule, mix};
use mmulab_trace::{Batch, Event, Item, Ref, Source, TraceError, TraceErrorKind, TraceInfo};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A word of a member's trace.
#[derive(Clone, Debug, PartialEq)]
enum Word {
    Ref(Ref),
    Event(Event),
}

/// A trace held in memory, in batches of given lengths.
struct Listed {
    info: TraceInfo,
    words: Vec<Word>,
    cuts: Vec<usize>,
    batches: usize,
    at: usize,
    damaged: bool,
}

impl Source for Listed {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, TraceError> {
        batch.clear();
        let most = self.cuts.get(self.batches % self.cuts.len().max(1)).copied().unwrap_or(usize::MAX);
        self.batches += 1;
        for word in self.words.iter().skip(self.at).take(most) {
            match word {
                Word::Ref(word) => batch.refs.push(*word),
                Word::Event(event) => batch.push_event(event.clone()),
            }
            self.at += 1;
        }
        if self.at == self.words.len() && self.damaged {
            return Err(TraceError::new("t", "", TraceErrorKind::Damaged("here".into())));
        }
        // A cut of length 0 makes an empty batch, which is allowed.
        Ok(self.at < self.words.len())
    }
}

fn listed(words: &[Word], cuts: &[usize]) -> Box<dyn Source> {
    let info = TraceInfo { name: "listed".into(), has_address_space: true, ..TraceInfo::default() };
    let (words, cuts) = (words.to_vec(), cuts.to_vec());
    Box::new(Listed { info, words, cuts, batches: 0, at: 0, damaged: false })
}

fn part(name: usize, words: &[Word], cuts: &[usize], after: u64, core: Option<u16>) -> Part {
    let (again, cut) = (words.to_vec(), cuts.to_vec());
    Part {
        name: format!("m{name}"),
        source: listed(words, cuts),
        again: Some(Box::new(move || Ok(listed(&again, &cut)))),
        after,
        core,
    }
}

fn told(mut source: Box<dyn Source>) -> Vec<Word> {
    let (mut out, mut batch) = (Vec::new(), Batch::default());
    loop {
        let more = source.next_batch(&mut batch).expect("whole");
        for word in &batch.refs {
            out.push(match word.item() {
                Item::Event(n) => Word::Event(batch.events[n].clone()),
                _ => Word::Ref(*word),
            });
        }
        if !more {
            return out;
        }
    }
}

fn instructions(word: &Word) -> u64 {
    match word {
        Word::Ref(word) => match word.item() {
            Item::Access(_, _, n) => u64::from(n),
            Item::Retire(n) => n,
            Item::Event(_) | Item::Code(_) => 0,
        },
        Word::Event(_) => 0,
    }
}

/// Words without those that say who acts and where, each with the process that acts.
fn acts(words: &[Word]) -> Vec<(Pid, Word)> {
    let mut pid = Pid(1);
    let mut out = Vec::new();
    for word in words {
        match word {
            Word::Event(Event::Switch { pid: next, .. }) => pid = *next,
            Word::Event(Event::Pin { .. }) => {}
            other => out.push((pid, other.clone())),
        }
    }
    out
}

/// One queue, turns counted in references, each member a single process: what the mix tells, but for who acts.
fn model(members: &[Vec<Word>], quantum: u64, end: End) -> Vec<(Pid, Word)> {
    let mut at = vec![0; members.len()];
    let mut ends = vec![0; members.len()];
    let mut out = Vec::new();
    let pid = |m: usize| Pid(m as u32 * NUMBERS + 1);
    let mut turn = 0;
    loop {
        let m = turn % members.len();
        turn += 1;
        if end == End::All && ends[m] > 0 {
            if ends.iter().all(|&n| n > 0) {
                return out;
            }
            continue;
        }
        let mut left = quantum;
        while let Some(word) = members[m].get(at[m]) {
            let is_reference = matches!(word, Word::Ref(word) if !word.is_control());
            if is_reference && left == 0 {
                break;
            }
            left -= u64::from(is_reference);
            out.push((pid(m), word.clone()));
            at[m] += 1;
        }
        if at[m] == members[m].len() {
            ends[m] += 1;
            at[m] = 0;
            if end == End::First || end == End::Restart && ends.iter().all(|&n| n > 0) {
                return out;
            }
            let acted = !members[m].is_empty();
            if end == End::Restart && acted {
                out.push((pid(m), Word::Event(Event::Exit { status: 0 })));
            }
        }
    }
}

fn word() -> impl Strategy<Value = Word> {
    let page = |n: u64| VirtAddr::new(0x1000_0000 + n * 4096);
    prop_oneof![
        8 => (0u64..12, 0u32..32).prop_map(move |(n, i)| Word::Ref(Ref::fetch(page(n), i))),
        8 => (0u64..12, any::<bool>())
            .prop_map(move |(n, w)| Word::Ref(if w { Ref::write(page(n)) } else { Ref::read(page(n)) })),
        2 => (0u64..50).prop_map(|n| Word::Ref(Ref::retire(n))),
        1 => (0u64..12).prop_map(move |n| Word::Event(Event::Invlpg { addr: page(n) })),
    ]
}

fn members() -> impl Strategy<Value = Vec<Vec<Word>>> {
    prop::collection::vec(prop::collection::vec(word(), 0..60), 1..5)
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::All), Just(End::First), Just(End::Restart)]
}

fn of(members: &[Vec<Word>], cuts: &[usize], schedule: &Schedule) -> Vec<Word> {
    let parts = members.iter().enumerate().map(|(m, words)| part(m, words, cuts, 7 * m as u64 % 5, None)).collect();
    told(mix("m", parts, schedule).expect("they go together"))
}

/// Pages touched, by member.
fn touched(words: &[Word], by: fn(Pid) -> u32) -> BTreeMap<u32, BTreeSet<u64>> {
    let mut out = BTreeMap::<u32, BTreeSet<u64>>::new();
    for (pid, word) in acts(words) {
        if let Word::Ref(word) = word
            && !word.is_control()
        {
            out.entry(by(pid)).or_default().insert(word.va().raw() >> 12);
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn turns_are_those_of_the_model(members in members(), quantum in 1u64..9, end in end()) {
        let parts = members.iter().enumerate().map(|(m, words)| part(m, words, &[5], 0, None)).collect();
        let schedule = Schedule { quantum, end, ..Schedule::default() };
        let found = told(mix("m", parts, &schedule).expect("they go together"));
        prop_assert_eq!(acts(&found), model(&members, quantum, end));
    }

    #[test]
    fn what_is_told_does_not_depend_on_batches(
        members in members(), cuts in prop::collection::vec(0usize..7, 1..6), quantum in 1u64..20, end in end(),
        unit in prop_oneof![Just(Counted::References), Just(Counted::Instructions)],
        cores in prop::option::of(1u16..4), migrate: bool, limit in prop::option::of(0u64..500),
    ) {
        prop_assume!(cuts.iter().any(|&n| n > 0));
        let schedule = Schedule { quantum, end, unit, cores, migrate, instructions: limit, ..Schedule::default() };
        prop_assert_eq!(of(&members, &cuts, &schedule), of(&members, &[usize::MAX], &schedule));
    }

    #[test]
    fn each_member_touches_what_it_touches_alone(
        members in members(), quantum in 1u64..20, machines: bool, cores in prop::option::of(1u16..4), migrate: bool,
    ) {
        let apart = if machines { Apart::Machines } else { Apart::Processes };
        let schedule = Schedule { quantum, apart, cores, migrate, ..Schedule::default() };
        let found = of(&members, &[3, 8], &schedule);
        let by = if machines { |pid: Pid| pid.0 >> PID_BITS } else { |pid: Pid| pid.0 / NUMBERS };
        let mixed = touched(&found, by);
        for (m, words) in (0u32..).zip(&members) {
            let alone = touched(words, |_| 0).remove(&0).unwrap_or_default();
            prop_assert_eq!(mixed.get(&m).cloned().unwrap_or_default(), alone);
        }
        let sum = |words: &[Word]| words.iter().map(instructions).sum::<u64>();
        prop_assert_eq!(sum(&found), members.iter().map(|words| sum(words)).sum::<u64>());
    }

    #[test]
    fn a_mix_of_one_is_its_member(words in prop::collection::vec(word(), 0..60), quantum in 1u64..9) {
        let schedule = Schedule { quantum, ..Schedule::default() };
        let found = of(std::slice::from_ref(&words), &[4], &schedule);
        let rest: Vec<Word> = found.into_iter().skip(usize::from(!words.is_empty())).collect();
        prop_assert_eq!(rest, words);
    }

    #[test]
    fn turns_of_instructions_end_with_their_block(members in members(), quantum in 1u64..60) {
        let schedule = Schedule { quantum, unit: Counted::Instructions, ..Schedule::default() };
        // All start at once: before a late member starts, turns of the only other one follow each other untold.
        let parts = members.iter().enumerate().map(|(m, words)| part(m, words, &[usize::MAX], 0, None)).collect();
        let found = told(mix("m", parts, &schedule).expect("they go together"));
        // Every turn but a member's last has its instructions, and is over with the first block that fills them.
        let mut turns: Vec<(Pid, Vec<Word>)> = Vec::new();
        for word in found {
            match word {
                Word::Event(Event::Switch { pid, .. }) => turns.push((pid, Vec::new())),
                word => turns.last_mut().expect("a turn begins with the actor").1.push(word),
            }
        }
        for (at, (pid, words)) in turns.iter().enumerate() {
            let sum: u64 = words.iter().map(instructions).sum();
            let is_last = !turns[at + 1..].iter().any(|(other, _)| other == pid);
            let alone = turns[at + 1..].is_empty();
            if !is_last {
                prop_assert!(sum >= quantum, "{sum} of {quantum}");
            }
            let mut before = 0;
            let is_head = |word: &Word| matches!(word, Word::Ref(r) if r.is_fetch() && r.instructions() > 0);
            let mut heads = words.iter().enumerate().filter(|(_, word)| is_head(word));
            if !alone && !is_last && let Some((last, _)) = heads.next_back() {
                before = words[..last].iter().map(instructions).sum();
            }
            prop_assert!(is_last || before < quantum);
        }
    }
}

fn reads(pages: &[u64]) -> Vec<Word> {
    pages.iter().map(|&n| Word::Ref(Ref::read(VirtAddr::new(n << 12)))).collect()
}

fn shown(words: &[Word]) -> Vec<String> {
    let show = |word: &Word| match word {
        Word::Event(Event::Switch { pid, tid }) => format!("{pid}.{tid}"),
        Word::Event(Event::Pin { tid, cpu }) => format!("{tid} on {cpu}"),
        Word::Event(Event::Fork { child, .. }) => format!("fork {child}"),
        Word::Event(Event::Clone { child }) => format!("clone {child}"),
        Word::Event(event) => format!("{event:?}"),
        Word::Ref(word) => format!("{:x}", word.va().raw() >> 12),
    };
    words.iter().map(show).collect()
}

#[test]
fn processes_and_threads_have_numbers_of_their_own() {
    let mut forks = reads(&[1]);
    forks.push(Word::Event(Event::Fork { child: Pid(2), shares_memory: false }));
    forks.push(Word::Event(Event::Clone { child: Tid(70_000) }));
    forks.push(Word::Event(Event::Switch { pid: Pid(2), tid: Tid(70_000) }));
    forks.extend(reads(&[2, 3]));
    let parts = vec![part(0, &reads(&[8, 9]), &[], 0, None), part(1, &forks, &[], 0, None)];
    let schedule = Schedule { quantum: 1, ..Schedule::default() };
    let found = shown(&told(mix("m", parts, &schedule).expect("they go together")));
    let expected = [
        "1.1",
        "8",
        "10001.10001",
        "1",
        "fork 10002",
        "clone 19999",
        "10002.19999",
        "1.1",
        "9",
        "10002.19999",
        "2",
        "3",
    ];
    assert_eq!(found, expected);
}

#[test]
fn threads_are_told_their_core_before_they_run() {
    let parts = (0..3).map(|m| part(m, &reads(&[m as u64, 9]), &[], 0, None)).collect();
    let schedule = Schedule { quantum: 1, cores: Some(2), ..Schedule::default() };
    let found = shown(&told(mix("m", parts, &schedule).expect("they go together")));
    let expected = [
        "1 on 0",
        "1.1",
        "0",
        "10001 on 1",
        "10001.10001",
        "1",
        "20001 on 0",
        "20001.20001",
        "2",
        "10001.10001",
        "9",
        "1.1",
        "9",
        "20001.20001",
        "9",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_member_that_starts_late_waits_only_while_others_run() {
    let counted: Vec<Word> = (0..3).flat_map(|n| [Word::Ref(Ref::fetch(VirtAddr::new(n << 12), 10))]).collect();
    let late = |after| vec![part(0, &counted, &[], 0, None), part(1, &reads(&[8, 9]), &[], after, None)];
    let schedule = Schedule { quantum: 1, ..Schedule::default() };
    let of = |after| shown(&told(mix("m", late(after), &schedule).expect("they go together")));
    assert_eq!(of(20), ["1.1", "0", "1", "10001.10001", "8", "1.1", "2", "10001.10001", "9"]);
    assert_eq!(of(99), ["1.1", "0", "1", "2", "10001.10001", "8", "9"]);
}

#[test]
fn what_came_before_damage_is_told() {
    let mut broken = part(0, &reads(&[1, 2]), &[], 0, None);
    let info = TraceInfo { name: "t".into(), has_address_space: true, ..TraceInfo::default() };
    broken.source = Box::new(Listed { info, words: reads(&[1, 2]), cuts: vec![], batches: 0, at: 0, damaged: true });
    let parts = vec![broken, part(1, &reads(&[8, 9]), &[], 0, None)];
    let mut source = mix("m", parts, &Schedule { quantum: 1, ..Schedule::default() }).expect("they go together");
    let mut batch = Batch::default();
    let error = source.next_batch(&mut batch).expect_err("it is damaged");
    assert!(error.to_string().contains("here"));
    assert_eq!(batch.counts().1, 3);
    assert!(!source.next_batch(&mut batch).expect("it is over"));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |parts: Vec<Part>| match mix("m", parts, &Schedule::default()) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it must be refused"),
    };
    assert!(refused(Vec::new()).contains("0 traces: give 1 to 1677"));
    let mut untold = part(0, &[], &[], 0, None);
    let info = TraceInfo { name: "other".into(), ..TraceInfo::default() };
    untold.source = Box::new(Listed { info, words: vec![], cuts: vec![], batches: 0, at: 0, damaged: false });
    assert!(refused(vec![untold, part(1, &[], &[], 0, None)]).contains("other does not tell what the program mapped"));
    let machines = Schedule { apart: Apart::Machines, ..Schedule::default() };
    let mut nested = part(0, &[], &[], 0, None);
    nested.source = mix("vms", vec![part(0, &[], &[], 0, None)], &machines).expect("one is enough");
    assert!(refused(vec![nested]).contains("vms runs virtual machines"));
}
