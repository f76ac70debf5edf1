"use strict";
// Draws the page's plots when they come near the screen, or are printed, in the page's colours.

const drawn = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
  const words = {labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12};
  const axis = {...words, gridColor: line, domainColor: ink, tickColor: ink, gridOpacity: 0.7};
  const labelLimit = innerWidth < 640 ? 110 : 320;
  return {
    background: "transparent", font: "system-ui, sans-serif", axis: {...axis, labelLimit}, view: {stroke: line},
    legend: {...words, ...(innerWidth < 640 ? {orient: "bottom", columns: 2} : {})},
    header: words, title: {color: ink}, style: {ink: {stroke: ink, color: ink}},
  };
}

function draw(figure) {
  if (drawn.has(figure)) return;
  drawn.add(figure);
  const spec = JSON.parse(figure.querySelector("script").textContent);
  if (typeof spec.width === "number" && !spec.encoding?.row) { // one in rows cannot be fitted: it is scaled as a picture
    spec.width = "container";
    spec.autosize = {type: "fit-x", contains: "padding"};
  }
  const asked = spec.layer || [spec];
  for (const layer of asked) if (innerWidth < 640 && layer.encoding?.y?.axis?.labelLimit) layer.encoding.y.axis.labelLimit = 110;
  delete spec.config;
  const options = {ast: true, actions: false, renderer: "svg", logLevel: 1, config: theme(), loader: {target: "_blank"}};
  const box = figure.querySelector(".plot");
  vegaEmbed(box, spec, options).then(() => {
    figure.dataset.drawn = "yes";
    box.querySelector("svg")?.setAttribute("aria-hidden", "true"); // the figure's label says what it shows
  }).catch((error) => {
    box.textContent = `This plot could not be drawn: ${error.message}`;
    console.error(error);
  });
}

function plots() {
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, {rootMargin: "600px"});
  const all = document.querySelectorAll("figure");
  all.forEach((figure) => seen.observe(figure));
  document.documentElement.dataset.plots = "yes";
  const unfold = () => { // a folded plot has no width, and paper has no folds
    document.querySelectorAll(".fold").forEach((fold) => { fold.open = true; });
    all.forEach(draw);
  };
  if (location.search === "?print") unfold(); // for headless Chromium, which does not wait for beforeprint
  addEventListener("beforeprint", unfold);
  dark.addEventListener("change", () => {
    const again = [...drawn];
    drawn.clear();
    again.forEach(draw);
  });
}

// Where a table is wider than its place, the page says so.
function wide() {
  const seen = new ResizeObserver((entries) => {
    for (const {target} of entries) target.toggleAttribute("data-wide", target.scrollWidth > target.clientWidth + 1);
  });
  document.querySelectorAll(".scroll").forEach((box) => seen.observe(box));
}

plots();
wide();
