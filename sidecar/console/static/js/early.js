// Before anything is drawn: the colours that were chosen last time.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("hence.theme");
  } catch {
    chosen = null; // the browser keeps nothing for this page
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
