// The chart of an answer to a query: the console says what is drawn, from the rows of its table.
"use strict";

const DASHES = [[], [6, 4], [2, 3]];
const LABEL_CHARS = 14;
const LABELS_ALL = 20;
const CHAR_WIDTH = 7;
const TURN = 45;

function shortened(text) {
  return text.length > LABEL_CHARS ? `${text.slice(0, LABEL_CHARS - 1)}…` : text;
}

// As other times of the console; of days without hours, the days.
function moment(time, times) {
  const text = new Date(time * 1000).toISOString();
  if (times.every((each) => each % 86400 === 0)) return text.slice(0, 10);
  return times.at(-1) - times[0] < 86400 ? clock(time, times) : text.slice(5, 16).replace("T", " ");
}

// Each of a few labels is shown, turned where they have no room beside each other.
function allLabels(axis, groups, width) {
  const longest = Math.max(...groups.map((each) => shortened(each).length)) * CHAR_WIDTH;
  axis.splits = () => groups.map((each, index) => index);
  if (longest < (width - 2 * CHAR_WIDTH * LABEL_CHARS) / groups.length) return;
  axis.rotate = TURN;
  axis.size = 30 + longest * Math.SQRT1_2;
}

// Bars of several values stand beside each other. Bars of several columns stand in each other, the first one widest.
function barsOf(answer, index) {
  const size = answer.isDivided ? 0.9 : 0.8 * (1 - index / (answer.names.length + 1));
  const lighter = ["", "90", "40"][Math.floor(index / COLOURS.length)];
  return { fill: colour(COLOURS[index % COLOURS.length]) + lighter, paths: uPlot.paths.bars({ size: [size, 80] }) };
}

function answerOptions(answer, isBars, width) {
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--border") }, ticks: { stroke: colour("--border") } };
  const below = { ...axis };
  if (answer.kind === "text") {
    below.values = (plot, splits) => splits.map((each) => (Number.isInteger(each) ? shortened(answer.groups[each] ?? "") : ""));
    below.space = 90;
    if (answer.groups.length <= LABELS_ALL) allLabels(below, answer.groups, width);
  }
  if (answer.kind === "time") {
    below.values = (plot, times) => times.map((time) => moment(time, times));
    below.space = 110;
  }
  const edge = isBars && answer.columns[0].length > 1
    ? (answer.columns[0].at(-1) - answer.columns[0][0]) / (answer.columns[0].length - 1) / 2 : 0;
  return {
    width, height: 260, axes: [below, { ...axis, size: 70, values: compact }],
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: {
      x: { time: answer.kind === "time", range: (plot, low, high) => [low - edge, high + edge] },
      y: { range: roomy },
    },
    series: [
      { value: (plot, value, index, at) => (at === null || value === null ? "" : answer.labels[at]) },
      ...answer.names.map((label, index) => ({
        label, stroke: colour(COLOURS[index % COLOURS.length]), width: 2,
        dash: DASHES[Math.floor(index / COLOURS.length)],
        ...(isBars ? barsOf(answer, index) : {}),
        // A value without neighbours would not be seen in a line.
        points: { show: !isBars && (answer.isDivided || answer.columns[0].length < 60) },
      })),
    ],
  };
}

function drawAnswer() {
  const box = document.querySelector("[data-chart]");
  if (!box) return;
  const answer = JSON.parse(box.dataset.plot);
  box.closest("figure").hidden = false;
  const options = answerOptions(answer, box.dataset.chart === "bars", box.clientWidth);
  const plot = new uPlot(options, answer.columns, box);
  new ResizeObserver(() => plot.setSize({ width: box.clientWidth, height: 260 })).observe(box);
}

document.addEventListener("DOMContentLoaded", drawAnswer);
