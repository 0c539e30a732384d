//! The work to be done in the guest, as the launcher wrote it. It has records that end with the byte 0x1e, of fields
//! that end with 0x1f.

/// What is to be done.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// A command that succeeds once the program serves; empty where it is no server.
    pub ready: Vec<String>,
    /// How long that may take, in seconds.
    pub ready_seconds: u64,
    /// What drives a server, one after the other.
    pub clients: Vec<Vec<String>>,
    /// Variables of all of them.
    pub env: Vec<(String, String)>,
    /// Where they run.
    pub directory: String,
    /// What is written to /sys/kernel/mm/transparent_hugepage/enabled.
    pub thp: Option<String>,
    /// What else is written to files of the kernel's.
    pub tune: Vec<(String, String)>,
    /// How much memory is held before anything runs.
    pub memhog: Option<Memhog>,
}

/// Memory that nobody else gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memhog {
    /// So much of what is free.
    pub percent: u64,
    /// How much lies together, in KiB: whole pages.
    pub chunk_kb: u64,
}

/// Reads the plan.
pub fn read(path: &str) -> Result<Plan, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Plan, String> {
    let mut plan = Plan { ready_seconds: 120, directory: "/".into(), ..Plan::default() };
    for record in text.split_terminator('\x1e') {
        let mut fields = record.split_terminator('\x1f').map(str::to_owned);
        let name = fields.next().unwrap_or_default();
        let mut one = || fields.next().ok_or_else(|| format!("the plan's {name} says too little"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{name}: {e}"));
        match name.as_str() {
            "thp" => plan.thp = Some(one()?),
            "directory" => plan.directory = one()?,
            "ready_seconds" => plan.ready_seconds = number(one()?)?,
            "tune" => plan.tune.push((one()?, one()?)),
            "memhog" => plan.memhog = Some(Memhog { percent: number(one()?)?, chunk_kb: number(one()?)? }),
            "env" => plan.env.push((one()?, one()?)),
            "program" => plan.program = fields.collect(),
            "ready" => plan.ready = fields.collect(),
            "client" => plan.clients.push(fields.collect()),
            other => return Err(format!("the plan says '{other}', which this agent does not know")),
        }
    }
    if plan.program.is_empty() { Err("the plan names no program".into()) } else { Ok(plan) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read() {
        let plan =
            parse("program\x1f/bin/x\x1f\x1fa b\x1f\x1eenv\x1fA\x1fb=c\x1f\x1eclient\x1f/bin/y\x1f\x1e").unwrap();
        assert_eq!(plan.program, ["/bin/x", "", "a b"]);
        assert_eq!((plan.env, plan.clients), (vec![("A".into(), "b=c".into())], vec![vec!["/bin/y".to_owned()]]));
        let held = parse("program\x1f/bin/x\x1f\x1ememhog\x1f40\x1f2048\x1f\x1etune\x1f/sys/a\x1f1\x1f\x1e").unwrap();
        assert_eq!(held.memhog, Some(Memhog { percent: 40, chunk_kb: 2048 }));
        assert_eq!(held.tune, [("/sys/a".into(), "1".into())]);
        assert!(parse("memhog\x1f40\x1f\x1e").unwrap_err().contains("says too little"));
        assert!(parse("what\x1fx\x1f\x1e").unwrap_err().contains("'what'"));
        assert!(parse("").is_err());
    }
}
