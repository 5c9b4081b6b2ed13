/* Browsers start no worker from a file. Where the site is opened as files, the search's worker runs in a hidden frame instead. */
class FrameWorker extends EventTarget {
  constructor(url) {
    super()
    const frame = document.createElement("iframe")
    frame.hidden = true
    document.body.appendChild(frame)
    this.inside = frame.contentWindow
    this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
    const script = frame.contentDocument.createElement("script")
    script.src = url
    this.ready = new Promise((resolve, reject) => { script.onload = resolve; script.onerror = reject })
    frame.contentDocument.body.appendChild(script)
  }
  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })))
  }
  terminate() {
    this.inside.frameElement.remove()
  }
}
if (location.protocol === "file:") window.Worker = FrameWorker
