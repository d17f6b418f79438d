package dev.loopwatch.zoo;

import io.fabric8.kubernetes.api.model.Condition;
import io.fabric8.kubernetes.api.model.Namespaced;
import io.fabric8.kubernetes.client.CustomResource;
import io.fabric8.kubernetes.model.annotation.Group;
import io.fabric8.kubernetes.model.annotation.Version;
import java.util.List;

/** The kind of this operator. */
@Group("zoo.loopwatch.dev")
@Version("v1")
public class Gear extends CustomResource<Gear.Spec, Gear.Status> implements Namespaced {

  public static class Spec {
    public String image;
    public Long size;
  }

  public static class Status {
    public Long observedGeneration;
    public List<Condition> conditions;
  }
}
