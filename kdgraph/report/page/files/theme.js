// Before anything is drawn, so that a dark page does not flash white.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    let chosen = null;
    try { chosen = localStorage.getItem("kdgraph-theme"); } catch { /* a page from a file may have no storage */ }
    document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
  };
  system.addEventListener("change", apply);
  apply();
})();
