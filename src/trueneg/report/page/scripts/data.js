// What the page knows: a study's data are read when they are first asked for.

const page = JSON.parse(byId("page:data").textContent);
const texts = new Map([...document.querySelectorAll("script.study-data")].map((node) => [node.dataset.study, node.textContent]));
const studies = new Map();

function studyNames() {
  return [...texts.keys()];
}

function study(name) {
  if (!studies.has(name)) studies.set(name, prepared(JSON.parse(texts.get(name))));
  return studies.get(name);
}

// Rows of lists become runs with names for their values.
function prepared(data) {
  data.runs.list = data.runs.rows.map((row, place) => {
    const run = Object.fromEntries(data.runs.columns.map((column, index) => [column, row[index]]));
    run.study = data.name;
    run.place = place;
    return run;
  });
  return data;
}

function settingsOf(run) {
  return study(run.study).runs.settings[run.settings];
}

function environmentOf(run) {
  return study(run.study).runs.environments[run.environment];
}

let listed = null;

// Every run of every study, then those that only the store knows; a run that two studies share is in both.
function allRuns() {
  if (listed === null) {
    listed = studyNames().flatMap((name) => study(name).runs.list);
    for (const other of page.others) listed.push({ ...other, study: "", value: null });
    for (const run of listed) {
      const made = run.study ? environmentOf(run) : {};
      run.commit = made.commit ?? "";
      run.device = made.device ?? "";
      run.key = `${run.study} ${run.run}`;
      run.words = [run.run, run.commit, run.device, run.objective, run.dataset, run.study, run.state].join(" ").toLowerCase();
    }
  }
  return listed;
}

// The runs that an origin names.
function runsBehind(name, origin) {
  return (origin.runs ?? []).map((place) => study(name).runs.list[place]);
}
