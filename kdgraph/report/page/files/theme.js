// Before anything is drawn, so that a dark page does not flash white.
(() => {
  const KEY = "kdgraph-theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  /** @type {(use: () => void) => void} */
  const withStorage = (use) => {
    try {
      use();
    } catch {
      // A page from a file may have no storage: a choice lasts as long as the page.
    }
  };
  let chosen = "";
  withStorage(() => {
    chosen = localStorage.getItem(KEY) ?? "";
  });
  const apply = () => {
    document.documentElement.dataset.theme = chosen || (system.matches ? "dark" : "light");
  };
  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    const select = /** @type {HTMLSelectElement} */ (document.getElementById("theme"));
    select.value = chosen;
    select.addEventListener("change", () => {
      chosen = select.value;
      apply();
      withStorage(() =>
        chosen ? localStorage.setItem(KEY, chosen) : localStorage.removeItem(KEY),
      );
    });
  });
})();
