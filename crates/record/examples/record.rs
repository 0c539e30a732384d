//! Records a program from the command line: `record PLUGIN OUTPUT [key=value...] -- PROGRAM ARGS`. For work on the recorder itself.
use mmulab_record::{RecordOptions, record};
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let split = args.iter().position(|a| a == "--").unwrap();
    let mut options = serde_json::json!({"plugin": args[0], "output": args[1], "command": args[split + 1..]});
    for a in &args[2..split] {
        let (k, v) = a.split_once('=').unwrap();
        options[k] = serde_json::from_str(v).unwrap_or_else(|_| serde_json::Value::from(v));
    }
    let options: RecordOptions = serde_json::from_value(options).unwrap();
    match record(&options, |_| true) {
        Ok(r) => eprintln!("{}", serde_json::to_string_pretty(&r).unwrap()),
        Err(e) => eprintln!("error: {e}"),
    }
}
