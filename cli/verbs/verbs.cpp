#include "cli/verbs/verbs.hpp"

#include <array>

namespace foreshard::cli {
namespace {

constexpr std::array kVerbs{
    Verb{"plan",
         "Predicts one steady-state step, in time and in memory",
         {"plan run.db --forward-prefetch 2 --reshard-after-forward false",
          "plan llama-8b --gpus 8 --param-dtype bfloat16 --all-gather copy-engine -o plan.db --json"},
         add_plan},
    Verb{"sweep",
         "Predicts every combination of options: Pareto table, the best one, the PyTorch calls that set it",
         {"sweep run.db --forward-prefetch implicit,1..4 --reshard-after-forward true,false --memory-limit 80GiB",
          "sweep config.json --gpus 8 --param-dtype bfloat16 --batch 1..8 --all-gather nccl,copy-engine --csv out.csv"},
         add_sweep},
    Verb{"run",
         "Runs the same steps on real GPUs, one process a GPU, with the plan beside what was measured",
         {"run mlp --gpus 4 -o run.db",
          "run llama-8b --gpus 4 --param-dtype bfloat16 --all-gather low-contention --json"},
         add_run},
    Verb{"probe",
         "Measures this machine's GPUs, links and host, and writes the profile that plan reads",
         {"probe -o machine.json", "probe --gpus 4 --base h200 -o machine.json --json"},
         add_probe},
    Verb{"import",
         "Reads a PyTorch run into the store",
         {"import rec/ -o run.db", "import --snapshot step.pickle --trace step.trace.json -o run.db"},
         add_import},
    Verb{"replay",
         "Replays a snapshot's requests through the allocator: verifies, or asks what another setting would do",
         {"replay step.pickle", "replay step.pickle --alloc-conf expandable_segments:True --json"},
         add_replay},
    Verb{"explain",
         "Where the memory or the step's time went, and what would give it back",
         {"explain step.pickle --about about.json --step all --json", "explain run.db --time"},
         add_explain},
    Verb{"fit",
         "What makes the ranks of a recording differ, and the options of plan that say so",
         {"fit --ranks ranks.db", "fit --ranks ranks.db --json"},
         add_fit},
    Verb{"machines",
         "The built-in machine profiles, or every constant of one with its source",
         {"machines h100", "machines our-machine.json --json"},
         add_machines},
    Verb{"calibrate",
         "Makes a machine profile from what was measured on the machine",
         {"calibrate all_gather_perf.txt reduce_scatter_perf.txt topology.xml --base h100 -o ours.json",
          "calibrate probe.json run.db -o ours.json --json"},
         add_calibrate},
    Verb{"compare",
         "Two runs side by side: settings, time and memory, by phase, unit and category, and why the steps differ",
         {"compare measured.db plan.db", "compare before.db after.db -o both.html"},
         add_compare},
    Verb{"view",
         "The interactive page of a run, or a static picture: memory over the streams, on one time axis",
         {"view run.db -o step.html", "view plan.db -o memory.png --step 2 --from 10ms --to 60ms --theme dark"},
         add_view},
    Verb{"export",
         "A run for other tools: Perfetto, Kineto's profiler trace, memory_viz, Graphviz, CSV, Chakra",
         {"export run.db --format perfetto -o step.perfetto.gz", "export run.db --format dot --step 1 -o step.dot"},
         add_export},
    Verb{"serve",
         "The interactive page from a local server: big stores, and sweeps in progress",
         {"serve run.db", "serve before.db after.db sweep.jsonl --port 8347 --theme dark"},
         add_serve},
    Verb{"query",
         "The store, by SQL: its tables and views are in docs/trace_schema.md",
         {"query run.db \"SELECT * FROM step_summary\"",
          "query run.db \"SELECT category, bytes FROM peak_by_category\" --csv"},
         add_query},
    Verb{"accuracy",
         "Holds recorded runs against their predictions: from captures and from models alone",
         {"accuracy reference -o accuracy.md", "accuracy reference --machine h200 --json"},
         add_accuracy},
};

}  // namespace

std::span<const Verb> verbs() {
  return kVerbs;
}

}  // namespace foreshard::cli
