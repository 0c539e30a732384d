//! What was counted in guests, read from the file of observations.

use crate::{Aged, Mobility};
use std::sync::LazyLock;

/// The observations; `scripts/aged/observe.py` makes them.
const TEXT: &str = include_str!("../../data/aged-linux-6.1.txt");

/// How often something was seen.
pub type Counted = Vec<(i32, u32)>;

/// A free list.
pub struct List {
    /// Whether it is one of a processor's own rather than the zone's.
    pub of_cpu: bool,
    pub mobility: Mobility,
    pub order: u8,
    /// Blocks in it: the fewest and the most that a guest had.
    pub length: (u32, u32),
    /// Lengths of runs of blocks that follow each other in the list and in memory; negative where they fall.
    pub runs: Counted,
    /// Bits of the distance, in frames, from the end of a run to the next run; negative if that lies lower.
    pub jumps: Counted,
}

/// What guests of one state were like.
#[derive(Default)]
pub struct Observed {
    /// By memory in frames, ascending: the fewest and the most frames in use.
    pub held: Vec<(u64, u64, u64)>,
    pub lists: Vec<List>,
    /// Page blocks of each mobility that free blocks smaller than one lie in: the fewest and the most.
    pub seats: [(u32, u32); Mobility::COUNT],
    /// From one of them to the next.
    pub gaps: Counted,
}

impl Observed {
    /// Frames in use where there are `total`: on the line through the means of the smallest and the largest guests.
    pub fn held(&self, total: u64) -> u64 {
        let mean = |&(size, least, most): &(u64, u64, u64)| (size as f64, (least + most) as f64 / 2.0);
        let (Some((x0, y0)), Some((x1, y1))) = (self.held.first().map(mean), self.held.last().map(mean)) else {
            return 0;
        };
        let slope = if x1 > x0 { (y1 - y0) / (x1 - x0) } else { 0.0 };
        (y0 + slope * (total as f64 - x0)).max(0.0) as u64
    }
}

/// The observations of a state; none of memory that has been through nothing.
pub fn observed(state: Aged) -> Option<&'static Observed> {
    static ALL: LazyLock<[Observed; 2]> =
        LazyLock::new(|| [Aged::Booted, Aged::Used].map(|state| parse(TEXT, state).expect("a file that a test reads")));
    match state {
        Aged::Off => None,
        Aged::Booted => Some(&ALL[0]),
        Aged::Used => Some(&ALL[1]),
    }
}

/// The lines of one state; the line that cannot be read otherwise.
fn parse(text: &str, state: Aged) -> Result<Observed, String> {
    let name = match state {
        Aged::Off => "off",
        Aged::Booted => "booted",
        Aged::Used => "used",
    };
    let mut all = Observed::default();
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let words: Vec<&str> = parts[0].split(' ').collect();
        if words.get(1) == Some(&name) {
            line_of(&mut all, &words, &parts).ok_or(line)?;
        }
    }
    Ok(all)
}

fn line_of(all: &mut Observed, words: &[&str], parts: &[&str]) -> Option<()> {
    match (words[0], &words[2..], &parts[1..]) {
        ("held", [mebibytes, least, most], []) => {
            all.held.push((mebibytes.parse::<u64>().ok()? << 8, least.parse().ok()?, most.parse().ok()?));
        }
        ("list", [place, mobility, order, least, most], [runs, jumps]) => all.lists.push(List {
            of_cpu: *place == "cpu",
            mobility: match *mobility {
                "unmovable" => Mobility::Unmovable,
                "movable" => Mobility::Movable,
                "reclaimable" => Mobility::Reclaimable,
                _ => return None,
            },
            order: order.parse().ok()?,
            length: (least.parse().ok()?, most.parse().ok()?),
            runs: counted(runs)?,
            jumps: counted(jumps)?,
        }),
        ("seats", [_, _, _, _, _, _], [gaps]) => {
            for (seats, pair) in all.seats.iter_mut().zip(words[2..].chunks(2)) {
                *seats = (pair[0].parse().ok()?, pair[1].parse().ok()?);
            }
            all.gaps = counted(gaps)?;
        }
        _ => return None,
    }
    Some(())
}

/// `3:20 -1:4`: twenty of 3, four of -1.
fn counted(text: &str) -> Option<Counted> {
    let pair = |word: &str| word.split_once(':').and_then(|(what, n)| Some((what.parse().ok()?, n.parse().ok()?)));
    text.split_whitespace().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_observations_can_be_read() {
        for state in [Aged::Booted, Aged::Used] {
            let all = parse(TEXT, state).unwrap();
            assert!(all.held.len() >= 2, "guests of two sizes tell how it scales");
            assert!(all.lists.iter().any(|l| !l.of_cpu && l.mobility == Mobility::Movable));
            assert!(all.lists.iter().all(|l| l.length.0 <= l.length.1 && !l.runs.is_empty() && l.order < 10));
            assert!(all.seats.iter().all(|seats| seats.0 > 0) && all.gaps.iter().all(|gap| gap.0 > 0));
            assert!(all.held(8 << 18) > all.held(1 << 18));
        }
        assert_eq!(
            parse("list used cpu movable x 1 2 | 1:1 |", Aged::Used).err().unwrap(),
            "list used cpu movable x 1 2 | 1:1 |"
        );
    }
}
